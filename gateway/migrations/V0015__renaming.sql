-- RenameObject: an object goes under another key of its bucket, in one transaction.

-- Renames that may be repeated under the same token, for a day. No foreign key: as with lobgate.object.
CREATE TABLE lobgate.rename_token (
    bucket_id  integer NOT NULL,
    token      text NOT NULL,
    source     text NOT NULL,
    key        text NOT NULL,
    renamed_at timestamptz NOT NULL,
    PRIMARY KEY (bucket_id, token)
);
CREATE INDEX rename_token_age ON lobgate.rename_token (renamed_at);

-- Whether a version (NULL or a delete marker: there is none) satisfies conditions, as RFC 9110, 13.2.2 weighs them: one on
-- the ETag makes the one on the time void. HTTP's times have whole seconds.
CREATE FUNCTION lobgate.satisfies(
    p_object lobgate.object, p_if_match text[], p_if_none_match text[], p_modified_since timestamptz, p_unmodified_since timestamptz
) RETURNS boolean
LANGUAGE plpgsql STABLE
AS $$
DECLARE
    v_modified timestamptz := date_trunc('second', p_object.last_modified);
BEGIN
    IF p_object.id IS NULL OR p_object.is_delete_marker THEN
        RETURN p_if_match IS NULL AND (p_modified_since IS NULL OR p_if_none_match IS NOT NULL);
    END IF;
    RETURN CASE WHEN p_if_match IS NOT NULL THEN lobgate.etag_in(p_object.etag, p_if_match)
                ELSE v_modified <= coalesce(p_unmodified_since, v_modified) END
       AND CASE WHEN p_if_none_match IS NOT NULL THEN NOT lobgate.etag_in(p_object.etag, p_if_none_match)
                ELSE p_modified_since IS NULL OR v_modified > p_modified_since END;
END
$$;

-- Renames an object. In a versioned bucket the new key gets a new version, and the old one a delete marker.
--   p_write, p_marker  ids of these
--   p_owner            who owns the delete marker
--   p_token            NULL, or under which the same rename may be repeated
-- SQLSTATE LG001: no such bucket; LG002: no such source; LG003: a condition does not hold; LG011: the token is another rename's.
CREATE FUNCTION lobgate.rename_object(
    p_bucket text, p_source text, p_key text, p_write uuid, p_marker uuid, p_owner text, p_token text,
    p_source_if_match text[], p_source_if_none_match text[], p_source_modified_since timestamptz,
    p_source_unmodified_since timestamptz,
    p_if_match text[], p_if_none_match text[], p_modified_since timestamptz, p_unmodified_since timestamptz
) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    v_bucket lobgate.bucket := lobgate.hold_bucket_row(p_bucket);
    v_source lobgate.object;
    v_target lobgate.object;
BEGIN
    IF p_token IS NOT NULL THEN
        DELETE FROM lobgate.rename_token t WHERE (t.bucket_id, t.token) IN (
            SELECT o.bucket_id, o.token FROM lobgate.rename_token o
            WHERE o.renamed_at < clock_timestamp() - interval '1 day' LIMIT 100 FOR UPDATE SKIP LOCKED);
        -- Waits for a rename under way with the same token.
        INSERT INTO lobgate.rename_token (bucket_id, token, source, key, renamed_at)
        VALUES (v_bucket.id, p_token, p_source, p_key, clock_timestamp())
        ON CONFLICT DO NOTHING;
        IF NOT FOUND THEN
            IF EXISTS (SELECT FROM lobgate.rename_token t WHERE t.bucket_id = v_bucket.id AND t.token = p_token
                       AND t.source = p_source AND t.key = p_key) THEN
                RETURN;
            END IF;
            RAISE EXCEPTION USING ERRCODE = 'LG011', MESSAGE = 'the token is another rename''s';
        END IF;
    END IF;
    LOOP
        -- in the order of the keys, as all who lock several do
        IF p_source COLLATE "C" < p_key THEN
            v_source := lobgate.lock_latest(v_bucket.id, p_source);
            v_target := lobgate.lock_latest(v_bucket.id, p_key);
        ELSE
            v_target := lobgate.lock_latest(v_bucket.id, p_key);
            v_source := lobgate.lock_latest(v_bucket.id, p_source);
        END IF;
        IF v_source.id IS NULL OR v_source.is_delete_marker THEN
            RAISE EXCEPTION USING ERRCODE = 'LG002', MESSAGE = 'no such key';
        END IF;
        IF NOT lobgate.satisfies(v_source, p_source_if_match, p_source_if_none_match, p_source_modified_since,
                                 p_source_unmodified_since)
           OR NOT lobgate.satisfies(v_target, p_if_match, p_if_none_match, p_modified_since, p_unmodified_since) THEN
            RAISE EXCEPTION USING ERRCODE = 'LG003', MESSAGE = 'precondition failed';
        END IF;
        EXIT WHEN lobgate.replace_latest(v_bucket, p_key, v_source.owner, v_target.id, v_target.version_id,
            p_write, v_source.content_id, v_source.size, v_source.etag, v_source.parts_count,
            v_source.checksum_algorithm, v_source.checksum_type, v_source.checksum, v_source.attributes,
            CASE WHEN v_source.tags IS NULL THEN '{}' ELSE jsonb_build_object('tags', v_source.tags) END
            || CASE WHEN v_source.acl IS NULL THEN '{}' ELSE jsonb_build_object('acl', v_source.acl) END) IS NOT NULL;
    END LOOP;
    IF v_bucket.versioning IS NULL THEN
        DELETE FROM lobgate.object o WHERE o.id = v_source.id;
    ELSE
        PERFORM lobgate.replace_latest(v_bucket, p_source, p_owner, v_source.id, v_source.version_id,
            p_marker, NULL, 0, '', NULL, NULL, NULL, NULL, NULL, NULL);
    END IF;
END
$$;
