//! `specreel mcp`: the models as tools of the Model Context Protocol.

use super::serve::{prepare, runtime};
use super::*;
use crate::cli::args::mcp::McpArgs;
use specreel_server::{McpServer, Options};

pub fn run(args: &McpArgs, config: &Config) -> Result<i32, End> {
    #[cfg_attr(not(feature = "find"), expect(unused_mut, reason = "there is no index"))]
    let mut defaults = prepare(&args.run, &args.speech, vec![(None, config.clone())])?;
    #[cfg(feature = "find")]
    {
        defaults.find = Some(resolve::library::finder(args.db.as_deref())?);
    }
    // The client runs as the user, who may read all of these.
    let allow_dirs = match &args.allow_dir[..] {
        [] => vec!["/".into()],
        named => named.to_vec(),
    };
    let options = Options { allow_dirs, timeout: None, ..Options::default() };
    let interrupt = listen(|| {})?;
    runtime(async {
        let server = McpServer::new(options, defaults)?;
        server.run(&mut |_| {}, &interrupt).await
    })?;
    Ok(0)
}
