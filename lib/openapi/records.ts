/** Shared by the operations on records and their results. */
import { ref } from './inputs.ts';
import { TEXT } from './json-schema.ts';
import { answer, parameter } from './operation.ts';
import { IDENTITY, URI } from './schemas.ts';

export const URI_QUERY = parameter('uri', 'query', URI);
export const IDENTITY_QUERY = parameter(
  'identity',
  'query',
  IDENTITY,
  'Asks for the result of this enqueue alone.',
);
/** Headers of an answer to a body of instances. */
export const WARNING = {
  headers: { Warning: { schema: TEXT, description: 'Keys of the body that were ignored: 299 - "…".' } },
};
/** Answers to an enqueue, by status. */
export const ENQUEUED = {
  202: {
    ...answer('The records are in the queue.', {
      anyOf: [ref('Accepted'), ref('AllAccepted'), ref('EachAccepted')],
    }),
    ...WARNING,
  },
  207: { ...answer('A record on a line, or each of them, was refused.', ref('EachAccepted')), ...WARNING },
};

/** Bodies that are files, by media type. */
export const FILES = {
  'text/csv': { schema: { type: 'string', description: 'A table: the first line names the columns.' } },
  'image/*': { schema: { type: 'string', format: 'binary', description: 'An image for the only input.' } },
  'multipart/form-data': {
    schema: { type: 'object', description: 'Inputs by name: files are images, other fields texts.' },
  },
};

/** A body of instances: JSON in all its forms, or files. @param example an instance of the model, where one is known */
export function instancesBody(example: object | undefined) {
  return {
    'application/json': {
      schema: { anyOf: [ref('Instances'), ref('Values'), ref('Columns'), ref('Dataframe')] },
      ...(example && { example: { instances: [example] } }),
    },
    ...FILES,
  };
}
