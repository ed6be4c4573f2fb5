#![cfg(unix)]

use std::{
    fs::File,
    io::{PipeReader, Read, pipe},
    mem::ManuallyDrop,
    os::fd::OwnedFd,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use tempfile::NamedTempFile;
use tokio_util::sync::CancellationToken;

use crate::{
    app::App,
    mcp::{self, Loading},
    options::{Defaults, Options},
    routes,
    videos::Store,
};

/// What a pipe holds at most until somebody reads it.
const PIPE: u64 = 1 << 20;

static READERS: Mutex<Vec<PipeReader>> = Mutex::new(Vec::new());

/// A file on a disk that stalls: a write of more than a pipe holds waits until the other end is read.
fn stalling(dir: &std::path::Path) -> std::io::Result<NamedTempFile> {
    let (reader, writer) = pipe()?;
    READERS.lock().unwrap().push(reader);
    let path = NamedTempFile::new_in(dir)?.into_temp_path();
    Ok(NamedTempFile::from_parts(File::from(OwnedFd::from(writer)), path))
}

#[test]
fn uploads_to_a_stalled_disk_delay_nobody_else() {
    const THREADS: usize = 2;
    let options = Options { timeout: None, ..Options::default() };
    let mut app = App::new(options, Defaults::default()).unwrap();
    app.videos.store = Store::with(1 << 30, 1 << 30, stalling).unwrap();
    let app = Arc::new(app);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build().unwrap();
    // A failed assertion does not wait for threads that stall.
    let runtime = ManuallyDrop::new(runtime);
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (_loading, state) = tokio::sync::watch::channel(Loading::Running);
    let tools = mcp::service(app.clone(), state, CancellationToken::new());
    runtime.spawn(axum::serve(listener, routes::router(&app, tools).unwrap()).into_future());

    // As many uploads as there are threads.
    let head = "--x\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a.mp4\"\r\n\r\n";
    let body = [head.as_bytes(), &vec![b'x'; 4 * PIPE as usize], b"\r\n--x--\r\n"].concat();
    let uploads: Vec<_> = (0..THREADS)
        .map(|_| {
            let (url, body) = (format!("{url}/v1/files"), body.clone());
            thread::spawn(move || {
                let agent = ureq::Agent::config_builder().http_status_as_error(false).build().new_agent();
                let request = agent.post(url).header("content-type", "multipart/form-data; boundary=x");
                request.send(&body).map(|response| response.status().as_u16())
            })
        })
        .collect();
    // Both have begun to write, and neither can continue.
    while READERS.lock().unwrap().len() < THREADS || app.videos.store.used() == 0 {
        thread::yield_now();
    }
    // Only an answer that never comes takes so long.
    let agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(Duration::from_secs(60)))
        .build()
        .new_agent();
    for path in ["/health", "/v1/files", "/metrics", "/v1/models"] {
        let answer = agent.get(format!("{url}{path}")).call();
        assert!(answer.is_ok(), "{path}: {answer:?}");
    }
    assert!(uploads.iter().all(|upload| !upload.is_finished()), "the disk stalls");

    // The disk is there again.
    for mut reader in READERS.lock().unwrap().drain(..) {
        thread::spawn(move || {
            let mut part = [0; 1 << 16];
            while reader.read(&mut part).is_ok_and(|read| read > 0) {}
        });
    }
    for upload in uploads {
        assert_eq!(upload.join().unwrap().unwrap(), 200);
    }
    assert_eq!(app.videos.store.list().len(), THREADS);
    ManuallyDrop::into_inner(runtime).shutdown_background();
}
