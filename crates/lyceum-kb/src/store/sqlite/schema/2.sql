-- Commits merge pieces of the index of words sixteen at a time instead of four, and rewrite a piece for its deleted
-- entries alone when there are 40 % of them instead of 10 %, which together is a third of the work; the writer merges
-- more when nobody writes. Merging all pieces of a level at once, which holds up a commit, stays the last resort.
INSERT INTO lexical (lexical, rank) VALUES ('automerge', 16);
INSERT INTO lexical (lexical, rank) VALUES ('crisismerge', 64);
INSERT INTO lexical (lexical, rank) VALUES ('deletemerge', 40);
