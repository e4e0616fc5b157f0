"""The experiments of the paper, run again: its five tables, and what its theorems say.

The paper is A. Deshpande and R. Pratap, *Improved Outlier Robust Seeding for k-means*.

experiments   which tables there are: data, k, z, β, methods, repetitions (experiments.toml)
published     the figures that the paper prints (published.csv); impossible: which cannot be right
data          the rows of an experiment, and which of them are outliers
methods       the paper's five seedings, and our default; plain: the same seedings in plain NumPy
runner        every method, repetition after repetition, on several processes
machine       what it ran on, and with which code
trials        the results, kept in a file so that an interrupted run goes on where it stopped
summaries     what the repetitions of a method say together
comparison    our figures beside the paper's, and a verdict on each line
studies       Lemma 1, the instances on which the theorems fail, and t = (1 + c)·k centres
page          all of it as Markdown, with the words of reading; pictures: as pictures

Nothing here is needed to cluster data: the command ``robust-kmeans reproduce`` uses it.
"""
