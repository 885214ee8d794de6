"""What xDSL lacks or has wrong, kept here until it is there.

`patches/` has the same as changes of xDSL's sources, one for each defect, with the report to file and a test in xDSL's
style. A patch that xDSL has taken no longer applies, which a test tells: what corrects the same here then goes, and so
does what works around it elsewhere, with the patch's number in a comment.
"""
