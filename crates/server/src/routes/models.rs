//! `/v1/models`.

use axum::{Json, extract::State, http::StatusCode};

use super::{IdPath, id};

use crate::api::{ModelList, ModelObject};
use crate::app::{App, SharedApp};
use crate::{NAME, error::ApiError};

/// The models, and the name that always means the first. What was never loaded is known by its name alone.
fn models(app: &App) -> Vec<ModelObject> {
    let known =
        app.models.all().iter().filter(|model| model.ready().is_some() || model.served.name.is_some());
    let names = known.map(|model| model.id().to_owned()).chain([NAME.to_owned()]);
    names.map(|id| model(app, id)).collect()
}

fn model(app: &App, id: String) -> ModelObject {
    let number = app.models.find(Some(&id));
    let loaded = number.is_some_and(|number| app.pool.has(number));
    let memory_bytes = number.and_then(|number| app.models.all()[number].served.memory_bytes);
    ModelObject { id, object: "model", created: app.created, owned_by: NAME, loaded, memory_bytes }
}

pub async fn list(State(app): State<SharedApp>) -> Json<ModelList> {
    Json(ModelList { object: "list", data: models(&app) })
}

pub async fn get(State(app): State<SharedApp>, path: IdPath) -> Result<Json<ModelObject>, ApiError> {
    let id = id(path)?;
    let known = app.models.find(Some(&id)).map(|_| model(&app, id.clone()));
    known.map(Json).ok_or_else(|| {
        let id: String = id.chars().take(100).collect();
        let message = format!("no model `{id}`; GET /v1/models lists them");
        ApiError::new(StatusCode::NOT_FOUND, "model_not_found", message)
    })
}
