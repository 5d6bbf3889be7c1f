/** Judges docs/tasks/12-ask-as-tensorflow-serving.md. */
import { check, json } from './judge.mjs';

const { predictions } = await json('tfs.json');
check(
  predictions?.length === 1 && predictions[0]?.length === 10,
  'one prediction of ten numbers',
  predictions,
);
