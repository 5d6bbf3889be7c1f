#!/usr/bin/env bash
# The HTTPS API with curl: predict, enqueue, wait for the result, status, cancel, metrics. Requests to a deployed API are signed
# with the AWS credentials of the environment.
set -euo pipefail
cd "$(dirname "$0")"
url=${CLUSTER_SERVING_URL:-http://localhost:10020}
uri="curl-$$-$RANDOM"
image=$(base64 -w0 digits/images/digit-7.png)
who=()
if [[ ${CLUSTER_SERVING_AUTH:-} == iam || $url == https://*.execute-api.*.amazonaws.com* ]]; then
  who=(--aws-sigv4 "aws:amz:$AWS_REGION:execute-api" --user "$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY")
  if [[ -n ${AWS_SESSION_TOKEN:-} ]]; then who+=(-H "x-amz-security-token: $AWS_SESSION_TOKEN"); fi
fi
call() { curl -sS "${who[@]}" "$@"; }

echo "POST /predict"
echo "{\"instances\":[{\"image\":\"$image\"}]}" | call -f -d @- "$url/predict"

echo -e "\n\nPOST /predictions"
echo "{\"uri\":\"$uri\",\"instances\":[{\"image\":\"$image\"}]}" | call -f -d @- "$url/predictions"

echo -e "\n\nGET /predictions/$uri, waiting for it"
call -f -H 'Prefer: wait=20' "$url/predictions/$uri"

echo -e "\n\nGET /status"
call -f "$url/status?uri=$uri"

echo -e "\n\nPOST /cancel, too late"
call -X POST "$url/cancel?uri=$uri"

echo -e "\n\na body that is wrong"
call -d '{"instances":[{"image":[1,2,3]}]}' "$url/predict"

echo -e "\n\nGET /metrics"
call -f "$url/metrics" | head -c 300
echo
