-- The relations with these oids: what kind they are, who owns them, what binds a reader, whether the log has their rows.
select c.oid, n.nspname, c.relname, c.relkind, c.relpersistence, c.relreplident, c.relowner,
       coalesce((select o.option_value::bool from pg_options_to_table(c.reloptions) o
                 where o.option_name = 'security_invoker'), false),
       exists (select from pg_inherits i where i.inhparent = c.oid),
       -- The keys of a deferrable one may stand twice for a while, so that it tells no rows of the log apart.
       coalesce((select (string_to_array(i.indkey::text, ' ')::int[])[1:i.indnkeyatts] from pg_index i
                 where i.indrelid = c.oid and i.indisprimary and i.indisvalid and i.indimmediate), '{}'),
       -- Capture's publications of updates and deletes; inserts of all tables are in another one.
       exists (select from pg_publication_rel r join pg_publication p on p.oid = r.prpubid
               where r.prrelid = c.oid and p.pubname ~ '^tidewire_[0-9]{2}$'),
       c.relrowsecurity, c.relforcerowsecurity,
       case when c.relkind = 'v' then array(
           select distinct m[1]::oid from pg_rewrite r, regexp_matches(r.ev_action::text, ':relid (\d+)', 'g') m
           where r.ev_class = c.oid and r.rulename = '_RETURN' and m[1]::oid not in (0, c.oid)) else '{}' end
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.oid = any (%s)
