//! The tables, and every statement that is sent.
//!
//! ```text
//! <table>          key bytea primary key, seqno bigint, value bytea           envelopes under hashed names
//! <table>_changes  position bigint primary key, first bigint, epoch bigint, body bytea
//! <table>_meta     one row: schema, store_id, epoch, holder, wanted, expires, position, generation, trimmed
//! <table>_staged   generation bigint, key bytea, value bytea                  a restore that is under way
//! <ha_table>       id bigint primary key, name, cluster_address, api_address, willing, seen
//! ```
//!
//! [`PgStatements::columns`] names every column with its type, by which tables that are there are judged before they are used.
//!
//! The row of `<table>_meta` is the fence: a commit changes it where it has the writer's epoch and the position behind which the
//! writer writes, and changes nothing else where it has not. Who takes the lease waits for that row, and so for the commit.

/// The number of this layout.
pub(crate) const SCHEMA: i64 = 1;
/// Longest name of a table, with its schema.
const NAME_BYTES_MAX: usize = 100;
/// What one part of a name may have, so that the longest suffix fits PostgreSQL's 63 bytes.
const PART_BYTES_MAX: usize = 50;

type TableColumns = &'static [(&'static str, &'static str)];

const RECORDS: TableColumns = &[("key", "bytea"), ("seqno", "bigint"), ("value", "bytea")];
const CHANGES: TableColumns =
    &[("position", "bigint"), ("first", "bigint"), ("epoch", "bigint"), ("body", "bytea")];
const META: TableColumns = &[
    ("id", "integer"),
    ("schema", "bigint"),
    ("store_id", "bytea"),
    ("epoch", "bigint"),
    ("holder", "bigint"),
    ("wanted", "bigint"),
    ("expires", "timestamp with time zone"),
    ("position", "bigint"),
    ("generation", "bigint"),
    ("trimmed", "bigint"),
];
const STAGED: TableColumns = &[("generation", "bigint"), ("key", "bytea"), ("value", "bytea")];
const SERVERS: TableColumns = &[
    ("id", "bigint"),
    ("name", "text"),
    ("cluster_address", "text"),
    ("api_address", "text"),
    ("willing", "boolean"),
    ("seen", "timestamp with time zone"),
];

/// What the columns of tables are, where there are such tables: a name, a column and its type a row; the columns are null of one
/// that is not there.
pub(crate) const TABLE_COLUMNS: &str =
    "SELECT t.name, a.attname::text, format_type(a.atttypid, NULL) FROM unnest($1) AS t(name)
     LEFT JOIN pg_attribute a ON a.attrelid = to_regclass(t.name) AND a.attnum > 0 AND NOT a.attisdropped";

/// A statement, text by text.
#[derive(Debug)]
pub(crate) struct PgStatements {
    pub(crate) channel: String,
    pub(crate) create: String,
    pub(crate) create_ha: String,
    /// Each table, quoted, with its columns and their types.
    pub(crate) columns: [(String, TableColumns); 5],
    pub(crate) first_row: String,
    pub(crate) schema: String,
    pub(crate) commit: String,
    pub(crate) poll: String,
    pub(crate) records: String,
    pub(crate) trim: String,
    pub(crate) look: String,
    pub(crate) beat: String,
    pub(crate) servers: String,
    pub(crate) forget_servers: String,
    pub(crate) supersede: String,
    pub(crate) leave: String,
    pub(crate) take: String,
    pub(crate) take_blank: String,
    pub(crate) renew: String,
    pub(crate) release: String,
    pub(crate) refence: String,
    pub(crate) begin_restore: String,
    pub(crate) clear_staged: String,
    pub(crate) stage: String,
    pub(crate) switch: [String; 4],
}

/// Longest name of a channel: PostgreSQL cuts what is longer where it listens, and refuses it where it notifies.
const CHANNEL_BYTES_MAX: usize = 63;

/// Where changes are told. Two tables that share a channel wake each other in vain, and no more.
fn channel(table: &str) -> String {
    let mut name = format!("{}_changes", table.replace('.', "_"));
    // It is ASCII: see `quoted`.
    name.truncate(CHANNEL_BYTES_MAX);
    name
}

/// A name of a table, quoted; `None` if it is none that is taken.
fn quoted(name: &str, suffix: &str) -> Option<String> {
    let is_word = |part: &str| {
        !part.is_empty()
            && part.len() <= PART_BYTES_MAX
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let parts: Vec<&str> = name.split('.').collect();
    let is_name =
        name.len() <= NAME_BYTES_MAX && parts.len() <= 2 && parts.iter().all(|part| is_word(part));
    is_name.then(|| match parts.as_slice() {
        [schema, table] => format!("\"{schema}\".\"{table}{suffix}\""),
        _ => format!("\"{name}{suffix}\""),
    })
}

/// Whether a table may be called so.
#[must_use]
pub fn is_table_name(name: &str) -> bool {
    quoted(name, "").is_some()
}

impl PgStatements {
    /// The statements for these tables; `None` if a name is none.
    #[expect(clippy::too_many_lines, reason = "a table of texts")]
    pub(crate) fn new(table: &str, ha_table: &str) -> Option<Self> {
        let (records, changes) = (quoted(table, "")?, quoted(table, "_changes")?);
        let (meta, staged) = (quoted(table, "_meta")?, quoted(table, "_staged")?);
        let ha = quoted(ha_table, "")?;
        // Of two renewals the later one writes the later time: the clock is read behind the wait for the row.
        let lease = "clock_timestamp() + $1 * interval '1 millisecond'";
        let mark = "(extract(epoch FROM expires) * 1000000)::bigint";
        let columns = [
            (records.clone(), RECORDS),
            (changes.clone(), CHANGES),
            (meta.clone(), META),
            (staged.clone(), STAGED),
            (ha.clone(), SERVERS),
        ];
        Some(Self {
            columns,
            channel: channel(table),
            create: format!(
                "CREATE TABLE IF NOT EXISTS {records} (key bytea PRIMARY KEY, seqno bigint NOT NULL, value bytea NOT NULL);
                 CREATE TABLE IF NOT EXISTS {changes} (position bigint PRIMARY KEY, first bigint NOT NULL, epoch bigint NOT NULL, body bytea NOT NULL);
                 CREATE TABLE IF NOT EXISTS {meta} (id integer PRIMARY KEY CHECK (id = 1), schema bigint NOT NULL, store_id bytea NOT NULL,
                   epoch bigint NOT NULL, holder bigint NOT NULL, wanted bigint NOT NULL, expires timestamptz NOT NULL,
                   position bigint NOT NULL, generation bigint NOT NULL, trimmed bigint NOT NULL) WITH (fillfactor = 10);
                 CREATE TABLE IF NOT EXISTS {staged} (generation bigint NOT NULL, key bytea NOT NULL, value bytea NOT NULL, PRIMARY KEY (generation, key));"
            ),
            create_ha: format!(
                "CREATE TABLE IF NOT EXISTS {ha} (id bigint PRIMARY KEY, name text NOT NULL, cluster_address text NOT NULL,
                   api_address text NOT NULL, willing boolean NOT NULL, seen timestamptz NOT NULL) WITH (fillfactor = 50);"
            ),
            first_row: format!(
                "INSERT INTO {meta} (id, schema, store_id, epoch, holder, wanted, expires, position, generation, trimmed)
                 VALUES (1, $1, $2, 0, 0, 0, now(), 0, 0, 0) ON CONFLICT (id) DO NOTHING"
            ),
            schema: format!("SELECT schema, store_id FROM {meta} WHERE id = 1"),
            commit: format!(
                "WITH led AS (UPDATE {meta} SET position = $3, expires = {lease} WHERE id = 1 AND epoch = $2 AND position = $4 RETURNING 1),
                 put AS (INSERT INTO {records} (key, seqno, value) SELECT u.k, u.s, u.v FROM led, unnest($5, $6, $7) AS u(k, s, v)
                   ON CONFLICT (key) DO UPDATE SET seqno = excluded.seqno, value = excluded.value),
                 gone AS (DELETE FROM {records} WHERE key = ANY($8) AND EXISTS (SELECT 1 FROM led)),
                 told AS (INSERT INTO {changes} (position, first, epoch, body) SELECT $3, $9, $2, $10 FROM led)
                 SELECT pg_notify($11, '') FROM led"
            ),
            poll: format!(
                "SELECT m.epoch, m.position, m.generation, m.trimmed, m.holder, c.first, c.position, c.epoch, c.body
                 FROM {meta} m LEFT JOIN LATERAL (SELECT first, position, epoch, body FROM (
                   SELECT first, position, epoch, body, sum(octet_length(body)) OVER (ORDER BY position) - octet_length(body) AS before
                   FROM (SELECT first, position, epoch, body FROM {changes} WHERE position > $1 ORDER BY position LIMIT $2) n
                   ) b WHERE before < $3) c ON true WHERE m.id = 1 ORDER BY c.position"
            ),
            records: format!(
                "SELECT m.epoch, m.position, m.generation, r.key, r.seqno, r.value FROM {meta} m LEFT JOIN {records} r ON true WHERE m.id = 1"
            ),
            trim: format!(
                "WITH led AS (UPDATE {meta} SET trimmed = $2 WHERE id = 1 AND epoch = $1 AND trimmed < $2 RETURNING 1)
                 DELETE FROM {changes} WHERE position <= $2 AND EXISTS (SELECT 1 FROM led)"
            ),
            look: format!(
                "SELECT epoch, holder, wanted, position, {mark} FROM {meta} WHERE id = 1"
            ),
            beat: format!(
                "INSERT INTO {ha} (id, name, cluster_address, api_address, willing, seen) VALUES ($1, $2, $3, $4, $5, clock_timestamp())
                 ON CONFLICT (id) DO UPDATE SET willing = excluded.willing, seen = excluded.seen,
                   cluster_address = excluded.cluster_address, api_address = excluded.api_address"
            ),
            servers: format!(
                "SELECT id, name, cluster_address, api_address, willing,
                   greatest(0, (extract(epoch FROM clock_timestamp() - seen) * 1000)::bigint) FROM {ha}
                 WHERE seen > clock_timestamp() - $1 * interval '1 millisecond' ORDER BY seen DESC LIMIT $2"
            ),
            forget_servers: format!(
                "DELETE FROM {ha} WHERE seen < clock_timestamp() - $1 * interval '1 millisecond'"
            ),
            // Whoever had this server's address, or has its name and says nothing, is the process that was here before.
            supersede: format!(
                "DELETE FROM {ha} WHERE id <> $1 AND ((cluster_address = $3 AND $3 <> '')
                   OR (name = $2 AND seen < clock_timestamp() - $4 * interval '1 millisecond'))"
            ),
            leave: format!("DELETE FROM {ha} WHERE id = $1"),
            take: format!(
                "WITH led AS (UPDATE {meta} SET epoch = epoch + 1, holder = $2, wanted = 0, expires = {lease}
                   WHERE id = 1 AND epoch = $3 AND holder = $4 AND {mark} = $5 RETURNING epoch, position)
                 SELECT epoch, position, pg_notify($6, 'taken') FROM led"
            ),
            take_blank: format!(
                "UPDATE {meta} SET epoch = epoch + 1, holder = $2, wanted = 0, expires = {lease}
                 WHERE id = 1 AND position = 0 RETURNING epoch, position"
            ),
            renew: format!(
                "UPDATE {meta} SET expires = {lease} WHERE id = 1 AND epoch = $2 AND holder = $3 RETURNING 1"
            ),
            release: format!(
                "WITH led AS (UPDATE {meta} SET holder = 0, wanted = $3, expires = now() WHERE id = 1 AND epoch = $1 AND holder = $2 RETURNING 1)
                 SELECT pg_notify($4, 'free') FROM led"
            ),
            refence: format!(
                "UPDATE {meta} SET epoch = epoch + 1, expires = {lease} WHERE id = 1 AND epoch = $2 AND holder = $3 RETURNING epoch, position"
            ),
            begin_restore: format!(
                "WITH led AS (UPDATE {meta} SET position = $3, expires = {lease} WHERE id = 1 AND epoch = $2 AND position = $4 RETURNING 1),
                 told AS (INSERT INTO {changes} (position, first, epoch, body) SELECT $3, $3, $2, $5 FROM led)
                 SELECT 1 FROM led"
            ),
            clear_staged: format!(
                "DELETE FROM {staged} WHERE generation <= $2 AND EXISTS (SELECT 1 FROM {meta} WHERE id = 1 AND epoch = $1)"
            ),
            stage: format!(
                "WITH led AS (SELECT 1 FROM {meta} WHERE id = 1 AND epoch = $1 FOR SHARE)
                 INSERT INTO {staged} (generation, key, value) SELECT $2, u.k, u.v FROM led, unnest($3, $4) AS u(k, v)
                 ON CONFLICT (generation, key) DO UPDATE SET value = excluded.value RETURNING 1"
            ),
            switch: [
                format!(
                    "UPDATE {meta} SET position = $3, generation = $5, trimmed = $3, expires = {lease}
                     WHERE id = 1 AND epoch = $2 AND position = $4 RETURNING 1"
                ),
                format!("DELETE FROM {records}"),
                format!(
                    "WITH taken AS (INSERT INTO {records} (key, seqno, value) SELECT key, $2, value FROM {staged} WHERE generation = $1 RETURNING 1)
                     SELECT count(*) FROM taken"
                ),
                format!("DELETE FROM {staged}; DELETE FROM {changes}; NOTIFY \"{}\"", channel(table)),
            ],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_that_is_looked_for_is_made() {
        let statements = PgStatements::new("t", "h").unwrap();
        let made = format!("{} {}", statements.create, statements.create_ha)
            .replace("timestamptz", "timestamp with time zone");
        let mut tables: Vec<&str> = made.split("CREATE TABLE IF NOT EXISTS ").skip(1).collect();
        for (table, columns) in &statements.columns {
            let at = tables.iter().position(|made| made.starts_with(table.as_str())).unwrap();
            let made = tables.remove(at);
            for (name, kind) in *columns {
                assert!(made.contains(&format!("{name} {kind}")), "{table} {name}");
            }
        }
        assert!(tables.is_empty());
    }

    #[test]
    fn a_channel_has_a_name_that_the_database_takes() {
        let (schema, table) = ("s".repeat(PART_BYTES_MAX), "t".repeat(PART_BYTES_MAX));
        let long = format!("{schema}.{table}");
        let long = PgStatements::new(&long[..NAME_BYTES_MAX], "h").unwrap();
        assert_eq!(long.channel.len(), CHANNEL_BYTES_MAX);
        assert!(long.switch[3].contains(&format!("\"{}\"", long.channel)));
        assert_eq!(PgStatements::new("a.b", "h").unwrap().channel, "a_b_changes");
    }

    #[test]
    fn names_of_tables_cannot_be_more_than_names() {
        for (name, is) in [
            ("kallisto_store", true),
            ("vault.kallisto", true),
            ("", false),
            ("a.b.c", false),
            ("a\"; DROP TABLE x; --", false),
            ("a b", false),
            ("a.", false),
        ] {
            assert_eq!(is_table_name(name), is, "{name}");
        }
    }
}
