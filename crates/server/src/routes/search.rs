//! `POST /v1/search`: moments of a library.

use axum::Json;
use axum::extract::{Request, State};
use serde_json::{Value, json};
use specreel_client::moments::Moment;

use super::{blocking, chat::json_body};
use crate::{
    api,
    app::SharedApp,
    error::ApiError,
    search::{self, FindMoments, UNREADABLE},
};

pub async fn search(State(app): State<SharedApp>, request: Request) -> Result<Json<Value>, ApiError> {
    let (body, permit) = json_body(&app, request).await?;
    blocking(move || {
        let mut fields = api::parse(&body)?;
        let call = FindMoments::read(&mut fields)?;
        fields.end()?;
        drop((body, permit));
        let moments = call.find(&app).map_err(|error| match error.code {
            // Where the file is concerns no client.
            UNREADABLE => ApiError {
                message: "this server has no index that can be read; see `specreel index`".into(),
                ..error
            },
            _ => error,
        })?;
        let directories = search::directories(&app);
        let data: Vec<Value> = moments.into_iter().map(|moment| below(moment, &directories).json()).collect();
        Ok(Json(json!({ "object": "list", "data": data })))
    })
    .await
}

/// A moment with the name that requests have for its video: a path below an allowed directory.
fn below(moment: Moment, directories: &[std::path::PathBuf]) -> Moment {
    let path = directories.iter().find_map(|dir| moment.path.strip_prefix(dir).ok().map(ToOwned::to_owned));
    Moment { path: path.unwrap_or_default(), ..moment }
}
