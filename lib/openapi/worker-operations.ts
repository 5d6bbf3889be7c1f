/** The operations of the worker service, which a job with a model serves too, and those that only a single machine has. */
import { rowShape } from '../pipeline/batch/batch-axes.ts';
import type { Json } from './facts.ts';
import { ref, takesImage } from './inputs.ts';
import { object, TEXT } from './json-schema.ts';
import { answer, type Operation, type Operations, parameter, RUN_ERRORS } from './operation.ts';

const BYTES = { type: 'string', format: 'binary' } as const;
const NAME = { type: 'string', pattern: '^[A-Za-z0-9._-]{1,64}$' } as const;
const FILE = {
  schema: { ...object({ img_bytes: BYTES }), additionalProperties: TEXT },
  encoding: {
    img_bytes: { contentType: 'image/png, image/jpeg, image/webp, image/bmp, image/gif, image/tiff' },
  },
} as const;
const FRAME = 'application/x-wkr';

function answered(data: Json): Json {
  return object({ error_code: { type: 'integer', const: 0 }, error_message: TEXT, data });
}

const ANSWER = answered({});

function forms(text: Json): Readonly<Record<string, Json>> {
  const media = { schema: { ...object({ img_url: text }), additionalProperties: TEXT } };
  return {
    'application/json': { schema: object({ img_url: text }) },
    'application/x-www-form-urlencoded': media,
    'multipart/form-data': media,
  };
}

export const WORKER: Operations = ({ model, example }) => {
  const item = (
    path: string,
    id: string,
    summary: string,
    body: Readonly<Record<string, Json>>,
  ): Operation => ({
    method: 'post',
    path,
    id,
    tag: 'worker',
    summary,
    body,
    answers: { 200: answer('What the worker or the model returned.', ANSWER) },
    errors: [...RUN_ERRORS, 'forbidden'],
  });
  // A model takes what is sent as its one input.
  const [input, ...more] = model?.inputs.filter(({ optional }) => !optional) ?? [];
  const isImage = more.length === 0 && input !== undefined && takesImage(input, rowShape(input));
  const takesText = !model || isImage || (more.length === 0 && input?.dtype === 'string');
  const encode = item('/encode', 'encode', 'Sends an address, or any value in a frame', {
    ...(takesText && forms(isImage ? ref('ImageText') : TEXT)),
    [FRAME]: { schema: BYTES },
  });
  const json = { schema: model ? ref('Instance') : {}, ...(example && { example }) };
  const images = [
    item('/encode_img_bytes', 'encodeImage', 'Sends an image', { 'multipart/form-data': FILE }),
    item('/v1/encode_img_bytes', 'encodeColorImage', 'Sends an image, which becomes RGB', {
      'multipart/form-data': FILE,
    }),
    item(
      '/encode_img_url',
      'encodeImageUrl',
      'Sends the address of an image',
      forms({
        type: 'string',
        format: 'uri',
        pattern: '^https://[a-z0-9-]+([.][a-z0-9-]+)+/[A-Za-z0-9_./-]*$',
      }),
    ),
  ];
  return [
    item('/encode_json', 'encodeJson', "Sends JSON, a model's inputs by name", { 'application/json': json }),
    ...(!model || isImage ? images : []),
    {
      ...encode,
      answers: {
        200: {
          description: 'What the worker or the model returned; a frame for a frame.',
          content: { 'application/json': { schema: ANSWER }, [FRAME]: { schema: BYTES } },
        },
        202: answer('The item waits.', answered(object({ id: NAME }))),
      },
    },
    ...STATE,
  ];
};

function stat(path: string, id: string, summary: string, isLocal: boolean): Operation {
  const operation: Operation = {
    method: 'get',
    path,
    id,
    tag: 'worker',
    summary,
    answers: { 200: answer(summary, { type: 'object' }) },
    errors: [],
  };
  return isLocal ? { ...operation, isLocal: true } : operation;
}

const STATE: readonly Operation[] = [
  stat('/status/server', 'serverStatus', 'Versions, settings and statistics', false),
  stat('/status/client', 'clientStatus', 'What waits', true),
  {
    method: 'get',
    path: '/stat',
    id: 'statisticsPage',
    tag: 'worker',
    summary: 'A page of statistics',
    isLocal: true,
    answers: { 200: answer('HTML without scripts.', TEXT, 'text/html') },
    errors: [],
  },
  {
    method: 'get',
    path: '/results/{identity}',
    id: 'laterResults',
    tag: 'worker',
    summary: 'Outcomes of items whose client did not wait',
    isLocal: true,
    parameters: [
      parameter('identity', 'path', NAME),
      parameter(
        'after',
        'query',
        { type: 'integer', minimum: 0, maximum: Number.MAX_SAFE_INTEGER },
        'The cursor of the page before.',
      ),
      parameter(
        'wait',
        'query',
        { type: 'integer', minimum: 0, maximum: Number.MAX_SAFE_INTEGER },
        'Seconds; 20 at most count.',
      ),
    ],
    answers: { 200: answer('A frame.', BYTES, FRAME) },
    errors: ['bad_request', 'too_large'],
  },
  {
    method: 'post',
    path: '/control/{verb}',
    id: 'control',
    tag: 'worker',
    summary: 'Ends the service, with the token that was made at its start',
    isLocal: true,
    parameters: [parameter('verb', 'path', { type: 'string', const: 'terminate' })],
    answers: { 200: answer('What the worker or the model returned.', ANSWER) },
    errors: ['not_found'],
  },
];
