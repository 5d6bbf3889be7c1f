/**
 * The ways in which an upload of a new version can be torn in a bucket whose model serves. `publishModel` causes none
 * of them, because it writes the pointer last; a copy by hand or another tool does.
 */
import { createHash } from 'node:crypto';
import { DeleteObjectCommand, PutObjectCommand } from '@aws-sdk/client-s3';
import type { S3Client } from '../../../lib/s3/objects.ts';
import { LOCATION } from './models.ts';

export interface Torn {
  readonly name: string;
  /** The expected report. */
  readonly message: RegExp;
  readonly tear: (s3: S3Client, model: Uint8Array, location?: typeof LOCATION) => Promise<void>;
}

const put = async (
  s3: S3Client,
  { bucket, prefix }: typeof LOCATION,
  name: string,
  Body: Uint8Array | string,
) => void (await s3.send(new PutObjectCommand({ Bucket: bucket, Key: prefix + name, Body })));

const sha256 = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex');

/** A pointer to a version of its own for every way. */
const pointer = (version: string, bytes: number, digest: string) =>
  JSON.stringify({ version, files: [{ path: 'model.onnx', bytes, sha256: digest }] });

export const TORN: readonly Torn[] = [
  {
    name: 'the object is there and the pointer is gone',
    message: /expected one \*\.onnx, found none/,
    tear: async (s3, model, location = LOCATION) => {
      await put(s3, location, 'versions/torn-1/model.onnx', model);
      await s3.send(
        new DeleteObjectCommand({ Bucket: location.bucket, Key: `${location.prefix}current.json` }),
      );
    },
  },
  {
    name: 'the pointer is half written',
    message: /current\.json is no model pointer/,
    tear: async (s3, model, location = LOCATION) => {
      const text = pointer('torn-2', model.length, sha256(model));
      await put(s3, location, 'versions/torn-2/model.onnx', model);
      await put(s3, location, 'current.json', text.slice(0, text.length / 2));
    },
  },
  {
    name: 'the pointer is empty',
    message: /current\.json is no model pointer/,
    tear: (s3, _, location = LOCATION) => put(s3, location, 'current.json', new Uint8Array()),
  },
  {
    name: 'the pointer is there and the object is not',
    message: /cannot download .* version torn-4/,
    tear: (s3, model, location = LOCATION) =>
      put(s3, location, 'current.json', pointer('torn-4', model.length, sha256(model))),
  },
  {
    name: 'the file is cut',
    message: /torn-5\/model\.onnx: expected \d+ bytes, got \d+/,
    tear: async (s3, model, location = LOCATION) => {
      await put(s3, location, 'versions/torn-5/model.onnx', model.subarray(0, model.length / 2));
      await put(s3, location, 'current.json', pointer('torn-5', model.length, sha256(model)));
    },
  },
  {
    name: 'the file is empty',
    message: /torn-6/,
    tear: async (s3, model, location = LOCATION) => {
      await put(s3, location, 'versions/torn-6/model.onnx', new Uint8Array());
      await put(s3, location, 'current.json', pointer('torn-6', model.length, sha256(model)));
    },
  },
  {
    name: 'the file goes on after its end',
    message: /torn-7\/model\.onnx: sha256 is \w+, expected \w+/,
    tear: async (s3, model, location = LOCATION) => {
      await put(s3, location, 'versions/torn-7/model.onnx', Buffer.concat([Buffer.from('x'), model]));
      await put(s3, location, 'current.json', pointer('torn-7', model.length, sha256(model)));
    },
  },
  {
    name: 'a byte of the file is another',
    message: /torn-8\/model\.onnx: sha256 is \w+, expected \w+/,
    tear: async (s3, model, location = LOCATION) => {
      const changed = Uint8Array.from(model);
      changed[changed.length - 1] = (changed.at(-1) ?? 0) ^ 1;
      await put(s3, location, 'versions/torn-8/model.onnx', changed);
      await put(s3, location, 'current.json', pointer('torn-8', model.length, sha256(model)));
    },
  },
  {
    name: 'the file is whole and no model',
    message: /onnxruntime cannot load the model/,
    tear: async (s3, model, location = LOCATION) => {
      const half = model.subarray(0, model.length / 2);
      await put(s3, location, 'versions/torn-9/model.onnx', half);
      await put(s3, location, 'current.json', pointer('torn-9', half.length, sha256(half)));
    },
  },
];
