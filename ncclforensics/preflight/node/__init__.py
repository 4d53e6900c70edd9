"""Facts of one node before a job starts; nothing is judged here.

Standard library and `ncclforensics.collect` alone, Python 3.9 and later: it is sent to
nodes as a script. Each fact is asked in a child with a limit.
"""
