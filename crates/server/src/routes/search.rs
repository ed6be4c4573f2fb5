//! `POST /v1/search`: moments of a library.

use axum::Json;
use axum::extract::{Request, State};
use serde_json::{Value, json};
use specreel_client::moments::Moment;
use std::path::{Path, PathBuf};

use super::{blocking, chat::json_body};
use crate::{
    api,
    app::{App, SharedApp},
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
        let data: Vec<Value> =
            moments.into_iter().map(|moment| named(&app, moment, &directories).json()).collect();
        Ok(Json(json!({ "object": "list", "data": data })))
    })
    .await
}

/// A moment with the name that requests have for its video, a path below an allowed directory, and without other paths.
fn named(app: &App, moment: Moment, directories: &[PathBuf]) -> Moment {
    let real = std::fs::canonicalize(&moment.path).ok();
    let means_it =
        |name: &&Path| app.videos.file(&name.to_string_lossy()).ok().map(|video| video.path) == real;
    let names = directories.iter().filter_map(|dir| moment.path.strip_prefix(dir).ok());
    let path = names.into_iter().find(means_it).unwrap_or(&moment.path).to_owned();
    // The file that an imported caption comes from; ids of models have slashes as well.
    let is_file = |model: &Path| {
        let ending = model.extension().unwrap_or_default();
        model.is_absolute() || ["json", "srt", "txt", "vtt"].iter().any(|known| ending == *known)
    };
    let model = moment.model.map(|model| match Path::new(&model) {
        file if is_file(file) => file.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        _ => model,
    });
    Moment { path, model, ..moment }
}
