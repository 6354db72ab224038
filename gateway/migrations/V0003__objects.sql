-- Objects: one row per object version. This table is the authority for existence, size and listing.
CREATE TABLE lobgate.object (
    id                 bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- bucket.id; held by lobgate.hold_bucket instead of a foreign key
    bucket_id          integer NOT NULL,
    key                text COLLATE "C" NOT NULL CHECK (octet_length(key) BETWEEN 1 AND 1024),
    -- NULL is S3's "null" version, the only one of an unversioned bucket
    version_id         uuid,
    is_latest          boolean NOT NULL DEFAULT true,
    is_delete_marker   boolean NOT NULL DEFAULT false,
    content_id         uuid REFERENCES lobgate.content (id),
    size               bigint NOT NULL CHECK (size >= 0),
    etag               text NOT NULL,
    -- set for an object made by a multipart upload: its content is a composite
    parts_count        integer CHECK (parts_count BETWEEN 1 AND 10000),
    checksum_algorithm text,
    checksum_type      text,
    checksum           bytea,
    attributes         jsonb,
    owner              text NOT NULL,
    last_modified      timestamptz NOT NULL,
    CHECK (is_delete_marker = (content_id IS NULL)),
    CHECK (num_nulls(checksum_algorithm, checksum_type, checksum) IN (0, 3))
);
-- What GET looks up and listings scan.
CREATE UNIQUE INDEX object_live ON lobgate.object (bucket_id, key) WHERE is_latest AND NOT is_delete_marker;
CREATE INDEX object_content ON lobgate.object (content_id);
CREATE TRIGGER object_removed AFTER DELETE ON lobgate.object
    FOR EACH ROW WHEN (OLD.content_id IS NOT NULL) EXECUTE FUNCTION lobgate.content_reference_removed();
CREATE TRIGGER object_replaced AFTER UPDATE OF content_id ON lobgate.object
    FOR EACH ROW WHEN (OLD.content_id IS DISTINCT FROM NEW.content_id AND OLD.content_id IS NOT NULL)
    EXECUTE FUNCTION lobgate.content_reference_removed();

-- Whether an ETag is in a set; {*} contains every tag.
CREATE FUNCTION lobgate.etag_in(p_etag text, p_set text[]) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT coalesce(p_set[1] = '*', false) OR p_etag = ANY (p_set) $$;

-- Publishes an object: makes an existing content the live version of a key, if the conditions hold.
--   p_if_match       NULL, or the ETags one of which the live version must have; {*}: any live version
--   p_if_none_match  NULL, or the ETags none of which the live version may have; {*}: no live version
-- Returns last_modified. SQLSTATE LG001: no such bucket, LG002: If-Match on a key without object,
-- LG003: a condition does not hold, 23503: the content was reaped meanwhile (only when it was not created here).
--
-- Why exactly one of N racing creators wins: the live row of a key is unique (object_live). A creator either inserts
-- it, or waits for the inserter's COMMIT, inserts nothing, and looks again with a new snapshot; the look locks the
-- row, so what the conditions saw is what the UPDATE replaces.
CREATE FUNCTION lobgate.publish_object(
    p_bucket text, p_key text, p_owner text,
    p_content uuid, p_size bigint, p_etag text, p_parts_count integer,
    p_checksum_algorithm text, p_checksum_type text, p_checksum bytea,
    p_attributes jsonb, p_if_match text[], p_if_none_match text[]
) RETURNS timestamptz
LANGUAGE plpgsql
AS $$
DECLARE
    v_bucket integer := lobgate.hold_bucket(p_bucket);
    v_now    timestamptz;
    v_live   record;
BEGIN
    LOOP
        SELECT o.id, o.etag INTO v_live FROM lobgate.object o
        WHERE o.bucket_id = v_bucket AND o.key = p_key AND o.is_latest AND NOT o.is_delete_marker
        FOR UPDATE;
        -- taken after the lock, so that the times of successive versions of a key never run backwards
        v_now := date_trunc('milliseconds', clock_timestamp());
        IF FOUND THEN
            IF (p_if_match IS NOT NULL AND NOT lobgate.etag_in(v_live.etag, p_if_match))
               OR (p_if_none_match IS NOT NULL AND lobgate.etag_in(v_live.etag, p_if_none_match)) THEN
                RAISE EXCEPTION USING ERRCODE = 'LG003', MESSAGE = 'precondition failed';
            END IF;
            UPDATE lobgate.object o SET
                content_id = p_content, size = p_size, etag = p_etag, parts_count = p_parts_count,
                checksum_algorithm = p_checksum_algorithm, checksum_type = p_checksum_type, checksum = p_checksum,
                attributes = p_attributes, owner = p_owner, last_modified = v_now
            WHERE o.id = v_live.id;
            RETURN v_now;
        END IF;
        IF p_if_match IS NOT NULL THEN
            RAISE EXCEPTION USING ERRCODE = 'LG002', MESSAGE = 'no such key';
        END IF;
        INSERT INTO lobgate.object (bucket_id, key, content_id, size, etag, parts_count,
            checksum_algorithm, checksum_type, checksum, attributes, owner, last_modified)
        VALUES (v_bucket, p_key, p_content, p_size, p_etag, p_parts_count,
            p_checksum_algorithm, p_checksum_type, p_checksum, p_attributes, p_owner, v_now)
        ON CONFLICT (bucket_id, key) WHERE is_latest AND NOT is_delete_marker DO NOTHING;
        IF FOUND THEN
            RETURN v_now;
        END IF;
    END LOOP;
END
$$;

-- Stores a short byte string and publishes it as an object, in one round trip. p_large: as a large object, else inline.
-- Where the live version of the key has the same bytes (SHA-256 and size), its content is kept and none is written but
-- a receipt under p_content.
CREATE FUNCTION lobgate.put_object(
    p_bucket text, p_key text, p_owner text,
    p_content uuid, p_bytes bytea, p_large boolean, p_md5 bytea, p_sha256 bytea, p_etag text,
    p_checksum_algorithm text, p_checksum_type text, p_checksum bytea,
    p_attributes jsonb, p_if_match text[], p_if_none_match text[]
) RETURNS timestamptz
LANGUAGE plpgsql
AS $$
DECLARE
    -- first of all locks, here as everywhere
    v_bucket  integer := lobgate.hold_bucket(p_bucket);
    v_content uuid := p_content;
    v_size    bigint := octet_length(p_bytes);
    v_same    uuid;
BEGIN
    -- The row lock keeps the content referenced until publish_object takes it over.
    SELECT c.id INTO v_same
    FROM lobgate.object o JOIN lobgate.content c ON c.id = o.content_id
    WHERE o.bucket_id = v_bucket AND o.key = p_key AND o.is_latest AND NOT o.is_delete_marker
      AND c.size = v_size AND c.sha256 = p_sha256
    FOR UPDATE OF o;
    IF FOUND THEN
        v_content := v_same;
        PERFORM lobgate.leave_receipt(p_content);
    ELSIF p_large THEN
        INSERT INTO lobgate.content (id, loid, size, md5, sha256)
        VALUES (p_content, lo_from_bytea(0, p_bytes), v_size, p_md5, p_sha256);
    ELSE
        INSERT INTO lobgate.content (id, inline, size, md5, sha256)
        VALUES (p_content, p_bytes, v_size, p_md5, p_sha256);
    END IF;
    RETURN lobgate.publish_object(p_bucket, p_key, p_owner, v_content, v_size, p_etag, NULL,
        p_checksum_algorithm, p_checksum_type, p_checksum, p_attributes, p_if_match, p_if_none_match);
END
$$;

-- Deletes the live versions of keys; the outcomes come back in the order of the keys. The condition arrays are as long
-- as p_keys, NULL where a key has no such condition.
--   p_if_match   ETags parted by commas, or *
-- Outcomes: NULL for deleted or absent, LG002: a condition on an absent key, LG003: a condition does not hold.
-- Keys are locked in byte order, so that two such calls cannot deadlock.
CREATE FUNCTION lobgate.delete_objects(
    p_bucket text, p_keys text[], p_if_match text[], p_if_size bigint[], p_if_last_modified timestamptz[]
) RETURNS TABLE (ordinal integer, outcome text)
LANGUAGE plpgsql
AS $$
DECLARE
    v_bucket integer := lobgate.hold_bucket(p_bucket);
    v_live   record;
    v_want   record;
BEGIN
    FOR v_want IN
        SELECT w.key, w.if_match, w.if_size, w.if_last_modified, w.ord
        FROM unnest(p_keys, p_if_match, p_if_size, p_if_last_modified)
             WITH ORDINALITY AS w (key, if_match, if_size, if_last_modified, ord)
        ORDER BY w.key COLLATE "C", w.ord
    LOOP
        ordinal := v_want.ord;
        outcome := NULL;
        SELECT o.id, o.etag, o.size, o.last_modified INTO v_live FROM lobgate.object o
        WHERE o.bucket_id = v_bucket AND o.key = v_want.key AND o.is_latest AND NOT o.is_delete_marker
        FOR UPDATE;
        IF NOT FOUND THEN
            IF num_nonnulls(v_want.if_match, v_want.if_size, v_want.if_last_modified) > 0 THEN
                outcome := 'LG002';
            END IF;
        ELSIF NOT coalesce(lobgate.etag_in(v_live.etag, string_to_array(v_want.if_match, ',')), true)
              OR v_live.size IS DISTINCT FROM coalesce(v_want.if_size, v_live.size)
              OR date_trunc('second', v_live.last_modified)
                 IS DISTINCT FROM date_trunc('second', coalesce(v_want.if_last_modified, v_live.last_modified)) THEN
            outcome := 'LG003';
        ELSE
            DELETE FROM lobgate.object o WHERE o.id = v_live.id;
        END IF;
        RETURN NEXT;
    END LOOP;
END
$$;
