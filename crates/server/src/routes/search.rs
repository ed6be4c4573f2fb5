//! `POST /v1/search`: moments of a library.

use axum::Json;
use axum::extract::{Request, State};
use serde_json::{Value, json};

use super::{blocking, dialect::json_body};
use crate::{api, app::SharedApp, error::ApiError, search::FindMoments};
use specreel_client::moments::Moment;

pub async fn search(State(app): State<SharedApp>, request: Request) -> Result<Json<Value>, ApiError> {
    let (body, permit) = json_body(&app, request).await?;
    blocking(move || {
        let mut fields = api::parse(&body)?;
        let call = FindMoments::read(&mut fields)?;
        fields.end()?;
        drop((body, permit));
        let data: Vec<Value> = call.find_named(&app)?.iter().map(Moment::json).collect();
        Ok(Json(json!({ "object": "list", "data": data })))
    })
    .await
}
