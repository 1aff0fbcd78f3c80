-- The current state of every document, deleted ones included.
-- `seal` is a checksum of the row, so that damage is seen and not served.
CREATE TABLE document (
    key           INTEGER PRIMARY KEY,
    path          TEXT NOT NULL UNIQUE,
    title         TEXT NOT NULL,
    tags          TEXT NOT NULL,
    source        TEXT,
    metadata      TEXT NOT NULL,
    mime          TEXT NOT NULL,
    revision      INTEGER NOT NULL,
    text_revision INTEGER NOT NULL,
    body          INTEGER NOT NULL REFERENCES body (key),
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,
    deleted_at    INTEGER,
    seal          INTEGER NOT NULL,
    vector_status TEXT NOT NULL,
    vector_error  TEXT
) STRICT;
CREATE INDEX living ON document (path) WHERE deleted_at IS NULL;
CREATE INDEX pending ON document (updated_at) WHERE vector_status = 'pending';

-- Texts, each stored once; documents and revisions point here.
CREATE TABLE body (
    key  INTEGER PRIMARY KEY,
    seal INTEGER NOT NULL,
    text TEXT NOT NULL
) STRICT;

-- Every state a document ever had, the current one included.
CREATE TABLE revision (
    document      INTEGER NOT NULL REFERENCES document (key),
    revision      INTEGER NOT NULL,
    at            INTEGER NOT NULL,
    author        TEXT NOT NULL,
    action        TEXT NOT NULL,
    title         TEXT NOT NULL,
    tags          TEXT NOT NULL,
    source        TEXT,
    metadata      TEXT NOT NULL,
    mime          TEXT NOT NULL,
    text_revision INTEGER NOT NULL,
    body          INTEGER NOT NULL REFERENCES body (key),
    length        INTEGER NOT NULL,
    created_at    INTEGER NOT NULL,
    deleted_at    INTEGER,
    seal          INTEGER NOT NULL,
    PRIMARY KEY (document, revision)
) STRICT;

-- The tags of living documents.
CREATE TABLE tag (
    tag      TEXT NOT NULL,
    document INTEGER NOT NULL REFERENCES document (key),
    PRIMARY KEY (tag, document)
) STRICT, WITHOUT ROWID;
CREATE INDEX tag_document ON tag (document);

-- The words of living documents; the texts themselves are in `body`.
CREATE VIRTUAL TABLE lexical USING fts5 (
    title, path, tags, body,
    content = '', contentless_delete = 1,
    tokenize = 'porter unicode61 remove_diacritics 2'
);
INSERT INTO lexical (lexical, rank) VALUES ('rank', 'bm25(4.0, 2.0, 2.0, 1.0)');

-- One set of vectors per model; state is `active`, `building` or `dropped`.
CREATE TABLE vector_set (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    fingerprint TEXT NOT NULL,
    state       TEXT NOT NULL
) STRICT;

-- All vectors of one document in one set; `seq` grows with every change, n = 0 says that they were removed.
CREATE TABLE vector (
    seq           INTEGER PRIMARY KEY AUTOINCREMENT,
    set_id        INTEGER NOT NULL REFERENCES vector_set (id),
    document      INTEGER NOT NULL REFERENCES document (key),
    text_revision INTEGER NOT NULL,
    n             INTEGER NOT NULL,
    seal          INTEGER NOT NULL,
    chunks        BLOB NOT NULL,
    UNIQUE (document, set_id)
) STRICT;
CREATE INDEX vector_set_seq ON vector (set_id, seq);

-- Documents whose vectors are out of date. `due` is when to try next: retries and leases both move it.
CREATE TABLE outbox (
    set_id    INTEGER NOT NULL REFERENCES vector_set (id),
    document  INTEGER NOT NULL REFERENCES document (key),
    queued_at INTEGER NOT NULL,
    due       INTEGER NOT NULL,
    attempts  INTEGER NOT NULL,
    lease     TEXT,
    dead      TEXT,
    PRIMARY KEY (document, set_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX outbox_due ON outbox (set_id, due) WHERE dead IS NULL;
CREATE INDEX outbox_queued ON outbox (queued_at) WHERE dead IS NULL;

-- Answers already given, so that a repeated request is not a second write.
CREATE TABLE idempotency (
    principal TEXT NOT NULL,
    tool      TEXT NOT NULL,
    key       TEXT NOT NULL,
    digest    BLOB NOT NULL,
    path      TEXT NOT NULL,
    status    TEXT NOT NULL,
    revision  INTEGER NOT NULL,
    at        INTEGER NOT NULL,
    PRIMARY KEY (principal, tool, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_at ON idempotency (at);

-- Who did what. Ids have no gaps, so a missing line shows.
CREATE TABLE audit (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    at         INTEGER NOT NULL,
    principal  TEXT NOT NULL,
    profile    TEXT NOT NULL,
    tool       TEXT NOT NULL,
    document   TEXT,
    outcome    TEXT NOT NULL,
    request_id TEXT NOT NULL
) STRICT;

-- Keys without their secrets.
CREATE TABLE api_key (
    id            TEXT PRIMARY KEY,
    name          TEXT NOT NULL,
    secret_sha256 BLOB NOT NULL,
    created_at    INTEGER NOT NULL,
    expires_at    INTEGER,
    revoked_at    INTEGER
) STRICT, WITHOUT ROWID;
