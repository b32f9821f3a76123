//! The life of a secret, from the command line to our own server and back.

use crate::support::{DevServer, directory};

#[test]
fn a_secret_lives_and_dies() {
    let server = DevServer::start(&directory());
    let steps = [
        ("status -field=sealed", 0, "false"),
        ("kv put -field=version secret/app/db user=ada pass=one", 0, "1"),
        ("kv put -field=version -cas=1 secret/app/db user=ada pass=two", 0, "2"),
        ("kv put -field=version -cas=1 secret/app/db user=eve", 2, ""),
        ("kv get -field=pass secret/app/db", 0, "two"),
        ("kv get -field=pass -version=1 -mount=secret app/db", 0, "one"),
        ("kv patch -field=version -mount=secret app/db pass=three", 0, "3"),
        ("kv get -field=user secret/app/db", 0, "ada"),
        ("kv list -format=yaml secret", 0, "- app/\n"),
        ("kv list -format=yaml secret/app", 0, "- db\n"),
        ("kv delete -format=json secret/app/db", 0, ""),
        ("kv get -field=pass secret/app/db", 2, ""),
        ("kv undelete -format=json -versions=3 secret/app/db", 0, ""),
        ("kv get -field=pass secret/app/db", 0, "three"),
        ("kv destroy -format=json -versions=1 secret/app/db", 0, ""),
        ("kv rollback -version=1 secret/app/db", 2, ""),
        (
            "kv metadata delete secret/app/db",
            0,
            "Success! Data deleted (if it existed) at: secret/metadata/app/db\n",
        ),
        ("kv get secret/app/db", 2, ""),
        ("token lookup -field=id", 0, "root"),
    ];
    for (line, code, stdout) in steps {
        let ran = server.run(line);
        assert_eq!((ran.code, ran.stdout.as_str()), (code, stdout), "{line}: {}", ran.stderr);
    }
}
