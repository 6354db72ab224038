-- Multipart uploads under way. A completed one stays for a while, so that a repeated CompleteMultipartUpload is
-- answered as the first one was.
CREATE TABLE lobgate.upload (
    -- UUID version 7: ids of a key sort in the order of their initiation
    id                 uuid PRIMARY KEY,
    bucket_id          integer NOT NULL,
    key                text COLLATE "C" NOT NULL,
    initiator          text NOT NULL,
    initiated_at       timestamptz NOT NULL DEFAULT date_trunc('milliseconds', clock_timestamp()),
    checksum_algorithm text,
    checksum_type      text,
    attributes         jsonb,
    -- what CompleteMultipartUpload answered
    completed_at       timestamptz,
    completed          jsonb,
    CHECK ((completed_at IS NULL) = (completed IS NULL))
);
CREATE INDEX upload_listing ON lobgate.upload (bucket_id, key, id) WHERE completed_at IS NULL;
CREATE INDEX upload_completed ON lobgate.upload (completed_at) WHERE completed_at IS NOT NULL;

CREATE TABLE lobgate.upload_part (
    upload_id     uuid NOT NULL REFERENCES lobgate.upload (id) ON DELETE CASCADE,
    part_number   integer NOT NULL CHECK (part_number BETWEEN 1 AND 10000),
    content_id    uuid NOT NULL REFERENCES lobgate.content (id),
    size          bigint NOT NULL CHECK (size >= 0),
    md5           bytea NOT NULL CHECK (octet_length(md5) = 16),
    checksum      bytea,
    last_modified timestamptz NOT NULL,
    PRIMARY KEY (upload_id, part_number)
);
CREATE INDEX upload_part_content ON lobgate.upload_part (content_id);
CREATE TRIGGER upload_part_removed AFTER DELETE ON lobgate.upload_part
    FOR EACH ROW EXECUTE FUNCTION lobgate.content_reference_removed();
CREATE TRIGGER upload_part_replaced AFTER UPDATE OF content_id ON lobgate.upload_part
    FOR EACH ROW WHEN (OLD.content_id IS DISTINCT FROM NEW.content_id)
    EXECUTE FUNCTION lobgate.content_reference_removed();

-- Makes an existing content a part of an upload under way, replacing an earlier part of that number.
-- Returns last_modified. SQLSTATE LG001: no such bucket, LG004: no such upload.
-- The share lock holds off completion and abort of the upload until this part is committed, never other parts.
CREATE FUNCTION lobgate.publish_part(
    p_bucket text, p_key text, p_upload uuid, p_part_number integer,
    p_content uuid, p_size bigint, p_md5 bytea, p_checksum bytea
) RETURNS timestamptz
LANGUAGE plpgsql
AS $$
DECLARE
    v_bucket integer := lobgate.hold_bucket(p_bucket);
    v_now    timestamptz;
BEGIN
    PERFORM 1 FROM lobgate.upload u
    WHERE u.id = p_upload AND u.key = p_key AND u.bucket_id = v_bucket AND u.completed_at IS NULL
    FOR SHARE OF u;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'LG004', MESSAGE = 'no such upload';
    END IF;
    v_now := date_trunc('milliseconds', clock_timestamp());
    INSERT INTO lobgate.upload_part AS p (upload_id, part_number, content_id, size, md5, checksum, last_modified)
    VALUES (p_upload, p_part_number, p_content, p_size, p_md5, p_checksum, v_now)
    ON CONFLICT (upload_id, part_number) DO UPDATE SET
        content_id = excluded.content_id, size = excluded.size, md5 = excluded.md5,
        checksum = excluded.checksum, last_modified = excluded.last_modified;
    RETURN v_now;
END
$$;

-- Stores a short byte string and publishes it as a part, in one round trip.
CREATE FUNCTION lobgate.put_part(
    p_bucket text, p_key text, p_upload uuid, p_part_number integer,
    p_content uuid, p_bytes bytea, p_large boolean, p_md5 bytea, p_sha256 bytea, p_checksum bytea
) RETURNS timestamptz
LANGUAGE plpgsql
AS $$
BEGIN
    IF p_large THEN
        INSERT INTO lobgate.content (id, loid, size, md5, sha256)
        VALUES (p_content, lo_from_bytea(0, p_bytes), octet_length(p_bytes), p_md5, p_sha256);
    ELSE
        INSERT INTO lobgate.content (id, inline, size, md5, sha256)
        VALUES (p_content, p_bytes, octet_length(p_bytes), p_md5, p_sha256);
    END IF;
    RETURN lobgate.publish_part(p_bucket, p_key, p_upload, p_part_number,
        p_content, octet_length(p_bytes), p_md5, p_checksum);
END
$$;

-- Deletes an empty bucket, and with it the uploads under way in it, as S3 does.
-- SQLSTATE LG001: no such bucket, LG005: bucket not empty.
CREATE FUNCTION lobgate.delete_bucket(p_bucket text) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    v_bucket integer;
BEGIN
    PERFORM pg_advisory_xact_lock(lobgate.bucket_lock_key(p_bucket));
    SELECT id INTO v_bucket FROM lobgate.bucket WHERE name = p_bucket FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'LG001', MESSAGE = 'no such bucket';
    END IF;
    IF EXISTS (SELECT 1 FROM lobgate.object o WHERE o.bucket_id = v_bucket) THEN
        RAISE EXCEPTION USING ERRCODE = 'LG005', MESSAGE = 'bucket not empty';
    END IF;
    DELETE FROM lobgate.upload u WHERE u.bucket_id = v_bucket;
    DELETE FROM lobgate.bucket b WHERE b.id = v_bucket;
END
$$;
