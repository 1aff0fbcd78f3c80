-- The length of a set's vectors: the first decides, others are refused. NULL before the first, and in sets that are older
-- than this column until they are opened.
ALTER TABLE vector_set ADD COLUMN dimensions INTEGER;

-- How often in a row the lease of a document ended without a word: what ends its worker is given up in the end.
ALTER TABLE outbox ADD COLUMN abandoned INTEGER NOT NULL DEFAULT 0;
