// RUN: tenon ops | filecheck %s
// RUN: tenon ops leaky_relu tenon.softmax | filecheck %s --check-prefix NAMED
// RUN: not tenon ops softmaxx 2>&1 | filecheck %s --check-prefix UNKNOWN

// The signature and the first line about each op; all there is about those that are named.
// CHECK:      add(x, y): The sum of `x` and `y`. Integers wrap.
// CHECK:      leaky_relu(x, negative_slope=0.01): The positive entries of `x`, the others times `negative_slope`.
// CHECK:      reshape(x, shape): {{.+}}
// CHECK:      conv1d(x, weight, bias=None, stride=(1,), padding=(0,), dilation=(1,), groups=1): {{.+}}
// CHECK:      conv2d(x, weight, bias=None, stride=(1,), padding=(0,), dilation=(1,), groups=1): {{.+}}

// NAMED:      tenon.leaky_relu(x, negative_slope=0.01)  (UnaryOp)
// NAMED:      The positive entries of `x`
// NAMED:      tenon.softmax(x, axis=-1)  (CompositeOp)
// NAMED:      `x` scaled along `axis`

// UNKNOWN: tenon: error: there is no op or function named 'softmaxx', did you mean 'softmax'
