//! The package for `StartOS`: its types against the SDK, its health check against the bodies of `/health`, and its
//! demands on the node.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use crate::released::Released;
use crate::{beside, packages, run};

/// Transpiles health.ts and prints its answer to each body.
const HEALTH: &str = "
const [packages, file, bodies] = process.argv.slice(1)
const typescript = require(packages + '/typescript')
const source = require('fs').readFileSync(file, 'utf8').replace(/^import .*$/m, 'const dashboardPort = 9400')
const { outputText } = typescript.transpileModule(source, { compilerOptions: { module: 'commonjs' } })
const module_ = { exports: {} }
new Function('exports', outputText)(module_.exports)
for (const body of JSON.parse(bodies)) console.log(Object.values(module_.exports.shown(body)).join(': '))
";

#[test]
fn the_package_has_the_types_of_the_sdk() {
    let Some(packages) = packages() else { return };
    let released = Released::new();
    let folder = released.of_box("startos");
    // Links, so that the stand-in for the package of Bitcoin lies beside the others.
    let modules = folder.join("node_modules");
    fs::create_dir(&modules).unwrap();
    for entry in fs::read_dir(&packages).unwrap().map(|entry| entry.unwrap().path()) {
        symlink(&entry, modules.join(entry.file_name().unwrap())).unwrap();
    }
    run(Command::new("cp").arg("-r").arg(beside("bitcoin-core-startos")).arg(&modules));
    run(Command::new("node").arg(modules.join("typescript/bin/tsc")).arg("--noEmit").current_dir(&folder));
}

#[test]
fn the_health_check_shows_progress_from_the_servers_own_words() {
    let Some(packages) = packages() else { return };
    let file = crate::repository().join("contrib/boxes/startos/startos/health.ts");
    // Bodies of the tests of the server's `/health`.
    let bodies = r#"[
        {"status":"serving","height":7},
        {"percent":43,"status":"syncing"},
        {"status":"behind the node","height":6,"node_height":7},
        {"status":"node unreachable","seconds":11},
        {"status":"index damaged","height":7,"reason":"page 3 is damaged"}
    ]"#;
    let said = run(Command::new("node").args(["--eval", HEALTH]).arg(packages).arg(file).arg(bodies));
    let expected = "success: At block 7\n\
                    loading: The index is built: 43 %\n\
                    loading: At block 6 of 7\n\
                    loading: node unreachable\n\
                    loading: index damaged: page 3 is damaged\n";
    assert_eq!(said, expected);
}

#[test]
fn nothing_is_asked_of_the_nodes_settings() {
    let folder = crate::repository().join("contrib/boxes/startos/startos");
    let dependencies = fs::read_to_string(folder.join("dependencies.ts")).unwrap();
    assert!(!dependencies.contains("createTask"));
    assert!(fs::read_to_string(folder.join("main.ts")).unwrap().contains("readonly: true"));
}
