/**
 * The worker service (`POST /encode…`), which a job with a model serves too. The rest of this folder is loaded at its first request. The
 * single machine answers the status itself, with statistics.
 */
import type { Declaration } from '../../openapi/declaration.ts';
import type { Json, ServiceFacts } from '../../openapi/facts.ts';
import { ref, takesImage } from '../../openapi/inputs.ts';
import { object, TEXT } from '../../openapi/json-schema.ts';
import { answer, type Operation, RUN_ERRORS } from '../../openapi/operation.ts';
import { BYTES, envelope, FRAME, NAME } from '../../openapi/worker.ts';
import { rowShape } from '../../pipeline/batch/batch-axes.ts';
import { type Handle, withErrors } from '../handle.ts';
import type { WorkerDeps } from './endpoint.ts';
import { errorEnvelope } from './envelope.ts';

export const handle: Handle<WorkerDeps> = withErrors(errorEnvelope, async (request, deps, clock) => {
  const { answerWorker } = await import('./endpoint.ts');
  return answerWorker(request, deps, clock);
});

export const declaration: Declaration = {
  routes: [
    'POST /encode',
    'POST /encode_json',
    'POST /encode_img_bytes',
    'POST /v1/encode_img_bytes',
    'POST /encode_img_url',
    'GET /status/server',
  ],
  function: 'predict',
  errorForm: 'WorkerError',
  operations,
};

function operations({ model, example }: ServiceFacts): readonly Operation[] {
  // A model takes what is sent as its one input.
  const [input, ...more] = model?.inputs.filter(({ optional }) => !optional) ?? [];
  const isImage = more.length === 0 && input !== undefined && takesImage(input, rowShape(input));
  const takesText = !model || isImage || (more.length === 0 && input?.dtype === 'string');
  const encode = item('/encode', 'encode', 'Sends an address, or any value in a frame', {
    ...(takesText && forms(isImage ? ref('ImageText') : TEXT)),
    [FRAME]: { schema: BYTES },
  });
  const json = { schema: model ? ref('Instance') : {}, ...(example && { example }) };
  return [
    item('/encode_json', 'encodeJson', "Sends JSON, a model's inputs by name", { 'application/json': json }),
    ...(!model || isImage ? images() : []),
    {
      ...encode,
      answers: {
        200: {
          description: 'What the worker or the model returned; a frame for a frame.',
          content: { 'application/json': { schema: envelope({}) }, [FRAME]: { schema: BYTES } },
        },
        202: answer('The item waits.', envelope(object({ id: NAME }))),
      },
    },
    {
      method: 'get',
      path: '/status/server',
      id: 'serverStatus',
      tag: 'worker',
      summary: 'Versions, settings and statistics',
      answers: { 200: answer('Versions, settings and statistics', { type: 'object' }) },
      errors: [],
    },
  ];
}

function images(): readonly Operation[] {
  const file = {
    'multipart/form-data': {
      schema: { ...object({ img_bytes: BYTES }), additionalProperties: TEXT },
      encoding: {
        img_bytes: { contentType: 'image/png, image/jpeg, image/webp, image/bmp, image/gif, image/tiff' },
      },
    },
  };
  const address = {
    type: 'string',
    format: 'uri',
    pattern: '^https://[a-z0-9-]+([.][a-z0-9-]+)+/[A-Za-z0-9_./-]*$',
  };
  return [
    item('/encode_img_bytes', 'encodeImage', 'Sends an image', file),
    item('/v1/encode_img_bytes', 'encodeColorImage', 'Sends an image, which becomes RGB', file),
    item('/encode_img_url', 'encodeImageUrl', 'Sends the address of an image', forms(address)),
  ];
}

function item(path: string, id: string, summary: string, body: Readonly<Record<string, Json>>): Operation {
  return {
    method: 'post',
    path,
    id,
    tag: 'worker',
    summary,
    body,
    answers: { 200: answer('What the worker or the model returned.', envelope({})) },
    errors: [...RUN_ERRORS, 'forbidden'],
  };
}

function forms(text: Json): Readonly<Record<string, Json>> {
  const media = { schema: { ...object({ img_url: text }), additionalProperties: TEXT } };
  return {
    'application/json': { schema: object({ img_url: text }) },
    'application/x-www-form-urlencoded': media,
    'multipart/form-data': media,
  };
}
