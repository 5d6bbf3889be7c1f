/** Judges docs/tasks/20-clean-up.md. */
import { check, list, url } from './judge.mjs';

const left = (await list('.')).filter((name) => name.startsWith('.cluster-serving'));
check(left.length === 0, 'no folder of data is left', left);
const answers = await fetch(`${url}/ready`).then(
  () => true,
  () => false,
);
check(!answers, 'nothing answers', url);
