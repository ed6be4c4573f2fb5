//! `POST /v1/search`: moments of a library.

use axum::Json;
use axum::extract::{Request, State};
use serde_json::{Value, json};

use super::{blocking, dialect::json_body};
use crate::search::{self, FindMoments};
use crate::{api, app::SharedApp, error::ApiError};

pub async fn search(State(app): State<SharedApp>, request: Request) -> Result<Json<Value>, ApiError> {
    let (body, permit) = json_body(&app, request).await?;
    blocking(move || {
        let mut fields = api::parse(&body)?;
        let call = FindMoments::read(&mut fields)?;
        fields.end()?;
        drop((body, permit));
        let moments = call.find(&app).map_err(search::without_path)?;
        let data: Vec<Value> =
            moments.into_iter().map(search::named(&app)).map(|moment| moment.json()).collect();
        Ok(Json(json!({ "object": "list", "data": data })))
    })
    .await
}
