"""Speed beside other packages: the parts of `against_peers.py` and `scaling.py`.

grid        the cells: shapes, distributions, real data
jobs        what a job is told and what it gives back
our_jobs    what this library does in its process
peer_jobs   what scikit-learn, scikit-learn-intelex, faiss, trimkmeans and R do in theirs
processes   a process per peer, and jobs that take turns
tasks       what is measured in each cell of the grid
side_tasks  what is measured once: bandwidth, memory, small data, first calls, trimmed peers
bandwidth   how fast this machine reads memory
machine     its description, its cache, and what others kept busy
memory      the peak of a process
records     lines of the CSV file, and runs that go on after an interruption
targets     the figures asked, in one table
page        the tables as Markdown
quotes      sections of that page in docs/performance.md
pictures    time against n, d, k and threads
"""
