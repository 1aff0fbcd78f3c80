-- Merging the pieces of the index of words is the writer's business: a little with every commit, more when nobody writes.
-- FTS5 itself would hold up a commit now and then for hundreds of pages, and still does as the last resort. A piece is
-- rewritten for its deleted entries alone when 40 % of them are deleted instead of 10 %.
INSERT INTO lexical (lexical, rank) VALUES ('automerge', 0);
INSERT INTO lexical (lexical, rank) VALUES ('usermerge', 8);
INSERT INTO lexical (lexical, rank) VALUES ('crisismerge', 64);
INSERT INTO lexical (lexical, rank) VALUES ('deletemerge', 40);
