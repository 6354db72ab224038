-- What is configured on a bucket, one document for each kind of configuration. The gateway gives it its form.
CREATE TABLE lobgate.bucket_setting (
    bucket_id  integer NOT NULL REFERENCES lobgate.bucket (id) ON DELETE CASCADE,
    kind       text NOT NULL,
    document   text NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (bucket_id, kind)
);
