/** Written by `npm run docs` from the files of lib/http that declare a route. */
import type { Declaration } from '../../../openapi/declaration.ts';
import { declaration as openInference } from '../../open-inference/route.ts';
import { declaration as openai } from '../../openai/route.ts';
import { declaration as tensorflowServing } from '../../tensorflow-serving/route.ts';
import { declaration as worker } from '../../worker/route.ts';
import { declaration as cancel } from '../cancel.ts';
import { declaration as embeddings } from '../embeddings.ts';
import { declaration as enqueue } from '../enqueue.ts';
import { declaration as invocations } from '../invocations.ts';
import { declaration as metrics } from '../metrics.ts';
import { declaration as ping } from '../ping.ts';
import { declaration as predict } from '../predict.ts';
import { declaration as ready } from '../ready.ts';
import { declaration as rerank } from '../rerank.ts';
import { declaration as results } from '../results.ts';
import { declaration as status } from '../status.ts';
import { declaration as uploads } from '../uploads.ts';
import { declaration as welcome } from '../welcome.ts';

export const DECLARATIONS: readonly Declaration[] = [
  predict,
  embeddings,
  invocations,
  enqueue,
  results,
  status,
  cancel,
  tensorflowServing,
  openInference,
  worker,
  welcome,
  ready,
  ping,
  metrics,
  rerank,
  uploads,
  openai,
];
