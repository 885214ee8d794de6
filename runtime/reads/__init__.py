"""What compiled functions read besides their arguments, and guards that notice when it is another.

`places` are where a function finds what it reads, `code` says what its code asks for, and `reads` finds that; `guards`
are the checks of each call, in Python and natively; `reading` watches what a function of `jit` reads while it is
traced, and `hooks` what hooks of users' ops read.
"""
