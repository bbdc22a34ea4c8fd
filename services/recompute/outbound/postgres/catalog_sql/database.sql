-- What holds for every text of the database: its default collation, its encoding, the version of the server.
select case
           when d.datlocprovider = 'c' and d.datcollate in ('C', 'POSIX') and d.datctype in ('C', 'POSIX') then 'bytes'
           when to_jsonb(d) ->> 'datlocale' = 'C' and d.datlocprovider = 'b' then 'bytes'
           else 'language'
       end,
       pg_encoding_to_char(d.encoding),
       current_setting('server_version_num')::int
from pg_database d where d.datname = current_database()
