-- Long texts are indexed a piece at a time, each in a transaction of its own, so that no other write waits long. A row
-- says which piece comes next, and which row of `revision` the text came with.
CREATE TABLE lexical_pending (
    document INTEGER PRIMARY KEY REFERENCES document (key),
    next     INTEGER NOT NULL,
    write    INTEGER NOT NULL
) STRICT;
