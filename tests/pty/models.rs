//! The models screen: another drafter, a download, a target that is used at once, and what is remembered.

use std::{fs, path::Path};

use super::{
    download::{files, hub_variables},
    hollow,
    server::{Reply, Server},
    terminal::Terminal,
};

fn studio(hub: &Server, home: &Path) -> Terminal {
    let args = ["demo", "--pace", "off", "--max-new-tokens", "8", "--dtype", "f32"];
    let [state, config] = ["state", "config"].map(|name| home.join(name).to_str().unwrap().to_owned());
    let mut variables = hub_variables(hub, home).to_vec();
    variables.extend([("XDG_STATE_HOME", state.as_str()), ("XDG_CONFIG_HOME", config.as_str())]);
    let t = Terminal::start_with(110, 34, &args, &variables);
    t.wait("╭ Library");
    t
}

/// The screen of models, by the key that opens it.
fn close(t: &mut Terminal) {
    t.keys("\u{1b}[18~");
    t.gone("╭ Models");
}

#[test]
fn a_model_is_downloaded_used_remembered_and_removed() {
    // The connection breaks in the middle of the weights, once for all retries.
    let cut = |request: &super::server::Request, before: usize, reply: &mut Reply| {
        if request.path.ends_with("/VL-Q8_0.gguf") && before < 1 {
            reply.cut = Some(1000);
        }
    };
    let (hub, home) = (Server::start(files(), Box::new(cut)), tempfile::tempdir().unwrap());
    let mut t = studio(&hub, home.path());
    t.wait("demo-target + demo-drafter");
    t.press("M", "embedded target");
    // Another drafter, live: the embedded weak one.
    t.press("\t", "no drafter");
    t.press("weak", "embedded weak drafter");
    t.press("\r", "demo-target with demo-drafter-weak in use");
    t.wait("freed");
    // A model by its id, whose transfer is resumed.
    t.press("\u{15}\t", "SmolVLM2");
    t.press("me/model:Q8_0", "Enter asks the hub");
    t.press("\r", "Download me/model:Q8_0");
    assert!(hub.asked("/VL-Q8_0.gguf").is_empty(), "nothing is downloaded before the answer");
    t.press("\r", "me/model:Q8_0 is downloaded");
    assert!(hub.asked("/VL-Q8_0.gguf").len() > 1, "it was resumed");
    // Used as the target, without a restart.
    t.press("\u{15}\u{1b}[Z\u{1b}[Z", "embedded target");
    t.press("q8_0", "me/model:Q8_0");
    t.press("\r", "VL-Q8_0 in use");
    close(&mut t);
    t.press("\r", "state     done");
    t.quit("q");

    // It is there the next time, and removed once something else is in use.
    let mut t = studio(&hub, home.path());
    t.wait("VL-Q8_0 ·");
    t.press("M", "embedded target");
    t.press("\u{1b}[3~", "is in use: change to another model first");
    t.press("embedded t", "filter embedded t");
    t.press("\r", "demo-target + demo-drafter ·");
    t.press("\u{15}q8_0", "me/model:Q8_0");
    t.press("\u{1b}[3~", "Remove me/model:Q8_0 from the disk");
    t.press("\r", "me/model:Q8_0 removed");
    assert!(!home.path().join("hub/models--me--model").exists());
    close(&mut t);
    t.quit("q");
}

#[test]
fn what_cannot_be_loaded_or_downloaded_is_said_and_the_old_models_stay() {
    let (hub, home) = (Server::start(files(), Box::new(|_, _, _| {})), tempfile::tempdir().unwrap());
    let folder = home.path().join("models/broken");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("config.json"), "{}").unwrap();
    let gone = home.path().join("models/gone");
    fs::create_dir_all(&gone).unwrap();
    for file in files().into_iter().filter(|file| !file.name.ends_with(".gguf")) {
        fs::write(gone.join(file.name), file.bytes).unwrap();
    }
    hollow::write(&home.path().join("models/huge"), "qwen2.5-vl-72b");
    let config = home.path().join("config/specreel");
    fs::create_dir_all(&config).unwrap();
    let folders = format!("models = [{:?}]\n", home.path().join("models"));
    fs::write(config.join("config.toml"), folders).unwrap();
    let mut t = studio(&hub, home.path());
    t.wait("demo-target + demo-drafter");
    t.press("M", "models/broken");
    t.press("broken", "unusable");
    t.press("\r", "config.json");
    // One that vanishes after it was listed.
    t.press("\u{15}gone", "models/gone");
    fs::remove_dir_all(&gone).unwrap();
    t.press("\r", "models/gone: no such directory");
    // One that is larger than the memory.
    t.press("\u{15}huge", "it does not fit into the memory");
    t.press("\r", "huge in f32 needs about 289 GB");
    t.press("\u{15}\u{1b}[Z", "SmolVLM2");
    t.press("me/nothing", "Enter asks the hub");
    t.keys("\r");
    t.press("\r", "model me/nothing not found");
    close(&mut t);
    t.press("\r", "state     done");
    t.quit("q");
}
