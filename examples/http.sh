#!/usr/bin/env bash
# The HTTPS API with curl: predict, enqueue, wait for the result, status, cancel, metrics.
set -euo pipefail
cd "$(dirname "$0")"
url=${CLUSTER_SERVING_URL:-http://localhost:10020}
uri="curl-$$-$RANDOM"
image=$(base64 -w0 digits/images/digit-7.png)

echo "POST /predict"
echo "{\"instances\":[{\"image\":\"$image\"}]}" | curl -fsS -d @- "$url/predict"

echo -e "\n\nPOST /predictions"
echo "{\"uri\":\"$uri\",\"instances\":[{\"image\":\"$image\"}]}" | curl -fsS -d @- "$url/predictions"

echo -e "\n\nGET /predictions/$uri, waiting for it"
curl -fsS -H 'Prefer: wait=20' "$url/predictions/$uri"

echo -e "\n\nGET /status"
curl -fsS "$url/status?uri=$uri"

echo -e "\n\nPOST /cancel, too late"
curl -sS -X POST "$url/cancel?uri=$uri"

echo -e "\n\na body that is wrong"
curl -sS -d '{"instances":[{"image":[1,2,3]}]}' "$url/predict"

echo -e "\n\nGET /metrics"
curl -fsS "$url/metrics" | head -c 300
echo
