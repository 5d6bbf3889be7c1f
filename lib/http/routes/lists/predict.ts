/** Written by `npm run docs` from the files of lib/http that declare a route. */
import { handle as openInference } from '../../open-inference/route.ts';
import { handle as tensorflowServing } from '../../tensorflow-serving/route.ts';
import { handle as worker } from '../../worker/route.ts';
import { handle as embeddings } from '../embeddings.ts';
import { handle as invocations } from '../invocations.ts';
import { handle as ping } from '../ping.ts';
import { handle as predict } from '../predict.ts';
import { handle as rerank } from '../rerank.ts';

export const HANDLES = {
  'POST /predict': predict,
  'POST /v1/embeddings': embeddings,
  'POST /invocations': invocations,
  'POST /v1/models/{path+}': tensorflowServing,
  'GET /v1/models/{path+}': tensorflowServing,
  'GET /v1/models': tensorflowServing,
  'POST /v2/{path+}': openInference,
  'GET /v2/{path+}': openInference,
  'GET /v2': openInference,
  'POST /encode': worker,
  'POST /encode_json': worker,
  'POST /encode_img_bytes': worker,
  'POST /v1/encode_img_bytes': worker,
  'POST /encode_img_url': worker,
  'GET /status/server': worker,
  'GET /ping': ping,
  'POST /rerank': rerank,
};
