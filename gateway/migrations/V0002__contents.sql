-- Contents: stored byte strings, immutable once committed.
--   inline     the bytes lie in this row
--   large      the bytes lie in a large object, created by the transaction that inserts this row
--   composite  neither: the bytes are those of the contents in content_part, in order
-- loid is of type oid in an ordinary table, so that vacuumlo counts every large object of ours as referenced.
CREATE TABLE lobgate.content (
    id         uuid PRIMARY KEY,
    loid       oid UNIQUE,
    inline     bytea,
    size       bigint NOT NULL CHECK (size >= 0),
    md5        bytea CHECK (octet_length(md5) = 16),
    sha256     bytea CHECK (octet_length(sha256) = 32),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CHECK (num_nonnulls(loid, inline) <= 1),
    CHECK (octet_length(inline) = size),
    -- a composite has no digest of its own, its parts have
    CHECK ((md5 IS NULL) = (num_nonnulls(loid, inline) = 0))
);

-- Contents that lost a reference, each with the transaction that removed it. The reaper alone deletes from content.
CREATE TABLE lobgate.removed (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    content_id uuid NOT NULL,
    xid        xid8 NOT NULL DEFAULT pg_current_xact_id(),
    removed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX removed_content ON lobgate.removed (content_id);

-- Leaves an empty content of a given id for the reaper. A transaction that stores no content of its own proves by it, if
-- the answer to its COMMIT is lost, that it happened.
CREATE FUNCTION lobgate.leave_receipt(p_content uuid) RETURNS void
LANGUAGE sql
AS $$
    INSERT INTO lobgate.content (id, inline, size, md5) VALUES (p_content, '', 0, decode(md5(''), 'hex'));
    INSERT INTO lobgate.removed (content_id) VALUES (p_content);
$$;

-- Every table that refers to a content has this trigger, so that no statement, ours or an operator's, can drop the
-- last reference without telling the reaper.
CREATE FUNCTION lobgate.content_reference_removed() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    INSERT INTO lobgate.removed (content_id) VALUES (OLD.content_id);
    RETURN NULL;
END
$$;

-- The parts of a composite content. A part is never a composite itself.
CREATE TABLE lobgate.content_part (
    composite_id uuid NOT NULL REFERENCES lobgate.content (id) ON DELETE CASCADE,
    part_number  integer NOT NULL CHECK (part_number BETWEEN 1 AND 10000),
    start        bigint NOT NULL CHECK (start >= 0),
    size         bigint NOT NULL CHECK (size >= 0),
    content_id   uuid NOT NULL REFERENCES lobgate.content (id),
    checksum     bytea,
    PRIMARY KEY (composite_id, part_number)
);
CREATE INDEX content_part_content ON lobgate.content_part (content_id);
CREATE TRIGGER content_part_removed AFTER DELETE ON lobgate.content_part
    FOR EACH ROW EXECUTE FUNCTION lobgate.content_reference_removed();
