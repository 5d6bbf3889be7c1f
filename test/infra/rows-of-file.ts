/** Values for osls beside the resources in serverless.yml, by path, and why; test/infra/templates.test.ts compares. */
import type { STACKS } from './sample-stacks.ts';

type Row = readonly [stack: keyof typeof STACKS, path: string, expected: unknown, why: string];

const IMAGE = { name: 'worker', command: ['dist/predict/index.handler'] };

/** The archive of a function holds its bundle and nothing else. */
const PACKAGES = ['predict', 'batch', 'predictions', 'status', 'dead-letter'].map(
  (name): Row => ['dev', `functions.${name}.package.patterns`, [`dist/${name}/**`], 'its bundle alone'],
);

export const FILE: readonly Row[] = [
  ...PACKAGES,
  ['dev', 'functions.submit.package.patterns', ['dist/predictions/**'], 'the bundle of predictions'],
  ['dev', 'service', 'cluster-serving', 'the name of the stack'],
  ['dev', 'frameworkVersion', '^4.3.1', 'an older osls does not know nodejs24.x'],
  ['dev', 'configValidationMode', 'error', 'a key that osls does not know is not passed over'],
  ['dev', 'plugins', ['./infra/plugin.mjs'], 'bundles the functions and publishes the model'],
  ['dev', 'provider.name', 'aws', 'osls knows others'],
  ['dev', 'provider.stage', 'dev', 'without --stage'],
  ['prod', 'provider.stage', 'prod', '--stage prod'],
  ['dev', 'provider.region', 'us-east-1', 'without --region, AWS_REGION and AWS_DEFAULT_REGION'],
  ['dev', 'provider.versionFunctions', false, 'versions would keep the zips of every deployment'],
  ['dev', 'provider.ecr', { images: {}, maxImageCount: 5, scanOnPush: true }, 'no image without a worker'],
  ['worker', 'provider.ecr.maxImageCount', 5, 'to roll back four times'],
  ['worker', 'provider.ecr.scanOnPush', true, 'known holes are found'],
  ['worker', 'functions.predict.image', IMAGE, 'the image that osls builds'],
  ['worker', 'functions.predict.handler', undefined, 'either an image or a handler'],
  ['dev', 'functions.predict.image', undefined, 'either an image or a handler'],
  ['dev', 'package.individually', true, 'each function has its bundle alone'],
  ['dev', 'package.excludeDevDependencies', false, 'the bundles have all; osls would look each up in npm'],
  ['dev', 'package.patterns', ['!**'], 'nothing but what a function names'],
];
