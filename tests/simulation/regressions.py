"""Seeds that once broke something: each run has to be clean for good (decision R63).

A change of the workload gives a seed another run; the defect is named so that a reader knows what was found.
"""

REGRESSIONS = {
    16: "a partition that was handed back had no authority: its purged number was above the log's",
    40: "the machine object of a renamed PSC made its old name the authority",
    65: "the header of another site's PSC made it the PSC of a server that had just become BSC",
    68: "a doubled answer made a whole replica unsure, and nobody asked again",
    74: "a full synchronization ended below the purged number, and an old object named a second authority",
    1389: "a late answer made a whole replica unsure: its empty site could not be removed",
    265: "a header with an old purged number was dropped whole, and the successor never heard of the baton",
    2249: "a BSC that had asked another PSC meanwhile never learnt the new name of its own",
    2396: "the same, with other PSCs that were renamed",
    565: "who took a site over from a lost PEC went on with its numbers; a removed site was back for good",
    703: "a successor that lacked its own machine object was authority of all, and no member",
    3579: "a new PSC that had asked a PEC of old about its site never owned it",
    3758: "the successor in a site, and the PEC elsewhere, did not know each other",
    3786: "a full synchronization by one who was behind, and another one who had purged",
    578: "an answer of a full synchronization, which lacks deletions, reached a restored older copy",
    9685: "no defect of a server: an heir was listed between its crash in a deletion and the recovery",
    605: "a PEC that was renamed and crashed before it had claimed its name gave the enterprise away",
    13_999: "no defect of a server: one that synchronized in full, from below the authority's purged number",
    210_947: "a PSC that had lost its disk asked the PEC alone: the removal of a BSC was lost",
    200_472: "no defect of a server: a backup that was taken in the middle of a deletion",
    6282: "no defect of a server: services kept machines of a site that was removed from being deleted",
    310_477: "a service's write failed on a full disk, and nobody asked whether its number was written",
    310_684: "the same, with an update",
    310_742: "numbers that a damaged entry may have had were told to others, and forgotten at the next start",
    310_817: "a PEC that crashed behind the write of a new PSC's name went on with the old one",
    310_019: "a service's write failed on a full disk: its client was told so, and it was done",
    310_049: "a BSC took its lost PSC for the PEC, and nobody told it better",
    310_126: "a bare update on top of an object whose last change a PSC's answer had left out",
    310_162: "a service's creation got the number of one that had failed behind its write",
    310_241: "the same, of another machine",
    310_363: "a replica was told of numbers that a damaged entry may have had; their authority went on below",
}
