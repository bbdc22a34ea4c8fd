-- Functions that act with the installer's rights are for the installer alone until it grants them.
revoke all on all functions in schema _tidewire from public;

-- Nobody but those functions needs these tables, whatever ALTER DEFAULT PRIVILEGES gave away.
do $$
declare
    given record;
begin
    for given in
        select distinct c.oid::regclass as name, a.grantee
        from pg_class c cross join aclexplode(c.relacl) a
        where c.oid in ('_tidewire.marks'::regclass, '_tidewire.pools'::regclass, '_tidewire.aside'::regclass,
                        '_tidewire.registrations'::regclass, '_tidewire.registration_gen'::regclass)
          and a.grantee <> c.relowner
    loop
        execute format('revoke all on %s from %s', given.name, coalesce(nullif(given.grantee, 0)::regrole::text, 'public'));
    end loop;
end $$;
