-- What was judged by a page is judged again under the locks: the tags of versions that expire, and how many newer ones are
-- left. Renames are repeated under a token only with the same conditions, and for a day. Gateways are told which bucket
-- has changed.

-- Deletes latest versions that rules no longer keep, where they still are what the rules meant: the same row, published at
-- the same moment, with the same tags. In a versioned bucket a delete marker takes the place of each. Returns how many.
--   p_owner    who owns the delete markers
--   p_ids      ids of rows
--   p_times    when each was published
--   p_tags     the tags of each; NULL: none
--   p_markers  ids of the delete markers
CREATE FUNCTION lobgate.expire_latest(
    p_bucket text, p_owner text, p_keys text[], p_ids bigint[], p_times timestamptz[], p_tags jsonb[], p_markers uuid[]
) RETURNS integer
LANGUAGE plpgsql
AS $$
DECLARE
    v_bucket lobgate.bucket := lobgate.hold_bucket_row(p_bucket);
    v_latest lobgate.object;
    v_want   record;
    v_gone   integer := 0;
BEGIN
    -- in the order of the keys, as all who lock several do
    FOR v_want IN
        SELECT w.* FROM unnest(p_keys, p_ids, p_times, p_tags, p_markers) AS w (key, id, published, tags, marker)
        ORDER BY w.key COLLATE "C"
    LOOP
        v_latest := lobgate.lock_latest(v_bucket.id, v_want.key);
        CONTINUE WHEN v_latest.id IS DISTINCT FROM v_want.id
            OR v_latest.is_delete_marker
            OR v_latest.last_modified <> v_want.published
            OR v_latest.tags IS DISTINCT FROM v_want.tags;
        IF v_bucket.versioning IS NULL THEN
            DELETE FROM lobgate.object o WHERE o.id = v_latest.id;
        ELSE
            -- Under the lock nobody else replaces it.
            CONTINUE WHEN lobgate.replace_latest(v_bucket, v_want.key, p_owner, v_latest.id, v_latest.version_id,
                v_want.marker, NULL, 0, '', NULL, NULL, NULL, NULL, NULL, NULL) IS NULL;
        END IF;
        v_gone := v_gone + 1;
    END LOOP;
    RETURN v_gone;
END
$$;

-- As expire_versions of three arguments, and also only where
--   p_tags  the tags of a past version are these; NULL: none
--   p_keep  at least so many past versions of its key are newer; NULL: any number
CREATE FUNCTION lobgate.expire_versions(p_bucket text, p_keys text[], p_ids bigint[], p_tags jsonb[], p_keep integer[])
RETURNS integer
LANGUAGE plpgsql
AS $$
DECLARE
    v_bucket lobgate.bucket := lobgate.hold_bucket_row(p_bucket);
    v_latest lobgate.object;
    v_want   record;
    v_gone   integer := 0;
BEGIN
    -- Oldest first, so that each still has its newer ones when it goes.
    FOR v_want IN
        SELECT w.* FROM unnest(p_keys, p_ids, p_tags, p_keep) AS w (key, id, tags, keep)
        ORDER BY w.key COLLATE "C", w.id
    LOOP
        v_latest := lobgate.lock_latest(v_bucket.id, v_want.key);
        CONTINUE WHEN v_latest.id IS NULL;
        IF v_latest.id <> v_want.id THEN
            -- Under the lock of the latest version no past one comes or goes.
            PERFORM FROM lobgate.object o
            WHERE o.id = v_want.id AND o.bucket_id = v_bucket.id AND o.key = v_want.key AND NOT o.is_latest
              AND o.tags IS NOT DISTINCT FROM v_want.tags
              AND (SELECT count(*) FROM lobgate.object n
                   WHERE n.bucket_id = v_bucket.id AND n.key = v_want.key AND NOT n.is_latest AND n.id > v_want.id)
                  >= coalesce(v_want.keep, 0)
            FOR UPDATE;
            CONTINUE WHEN NOT FOUND;
        END IF;
        v_gone := v_gone + lobgate.expire_versions(p_bucket, ARRAY[v_want.key], ARRAY[v_want.id]);
    END LOOP;
    RETURN v_gone;
END
$$;

ALTER TABLE lobgate.rename_token ADD COLUMN conditions text NOT NULL DEFAULT '';

CREATE OR REPLACE FUNCTION lobgate.rename_object(
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
    v_conditions text := concat_ws('|', p_source_if_match::text, p_source_if_none_match::text,
        extract(epoch FROM p_source_modified_since)::text, extract(epoch FROM p_source_unmodified_since)::text,
        'onto', p_if_match::text, p_if_none_match::text,
        extract(epoch FROM p_modified_since)::text, extract(epoch FROM p_unmodified_since)::text);
    v_since timestamptz := clock_timestamp() - interval '1 day';
BEGIN
    IF p_token IS NOT NULL THEN
        DELETE FROM lobgate.rename_token t WHERE (t.bucket_id, t.token) IN (
            SELECT o.bucket_id, o.token FROM lobgate.rename_token o
            WHERE o.renamed_at < v_since ORDER BY o.renamed_at LIMIT 100 FOR UPDATE SKIP LOCKED);
        -- Waits for a rename under way with the same token. One that is too old is forgotten, whether it is still there or not.
        INSERT INTO lobgate.rename_token AS t (bucket_id, token, source, key, conditions, renamed_at)
        VALUES (v_bucket.id, p_token, p_source, p_key, v_conditions, clock_timestamp())
        ON CONFLICT (bucket_id, token) DO UPDATE SET source = excluded.source, key = excluded.key,
            conditions = excluded.conditions, renamed_at = excluded.renamed_at
            WHERE t.renamed_at < v_since;
        IF NOT FOUND THEN
            IF EXISTS (SELECT FROM lobgate.rename_token t WHERE t.bucket_id = v_bucket.id AND t.token = p_token
                       AND t.source = p_source AND t.key = p_key AND t.conditions = v_conditions) THEN
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

-- Says which bucket has changed; an empty word says that anything may have.
CREATE FUNCTION lobgate.bucket_changed() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    IF TG_TABLE_NAME = 'bucket' THEN
        IF TG_OP <> 'INSERT' THEN
            PERFORM pg_notify('lobgate_access', OLD.name);
        END IF;
        IF TG_OP <> 'DELETE' THEN
            PERFORM pg_notify('lobgate_access', NEW.name);
        END IF;
    ELSE
        PERFORM pg_notify('lobgate_access', coalesce((
            SELECT b.name FROM lobgate.bucket b
            WHERE b.id = CASE TG_OP WHEN 'DELETE' THEN OLD.bucket_id ELSE NEW.bucket_id END), ''));
    END IF;
    RETURN NULL;
END
$$;

DROP TRIGGER access_changed ON lobgate.bucket;
CREATE TRIGGER access_changed AFTER INSERT OR UPDATE OF name, owner OR DELETE ON lobgate.bucket
    FOR EACH ROW EXECUTE FUNCTION lobgate.bucket_changed();
CREATE TRIGGER access_truncated AFTER TRUNCATE ON lobgate.bucket
    FOR EACH STATEMENT EXECUTE FUNCTION lobgate.access_changed();
DROP TRIGGER access_changed ON lobgate.bucket_setting;
CREATE TRIGGER access_changed AFTER INSERT OR UPDATE OR DELETE ON lobgate.bucket_setting
    FOR EACH ROW EXECUTE FUNCTION lobgate.bucket_changed();
CREATE TRIGGER access_truncated AFTER TRUNCATE ON lobgate.bucket_setting
    FOR EACH STATEMENT EXECUTE FUNCTION lobgate.access_changed();
