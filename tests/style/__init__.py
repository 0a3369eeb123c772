"""Style is checked by tests from the first day, so that it is never argued about.

Each checker is a pure function from sources to a list of complaints, empty if all is well. The
modules beside this one run them over the tree; `test_checkers` feeds each a bad sample, because a
checker that cannot fail checks nothing.
"""
