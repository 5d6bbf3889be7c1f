/** `cluster-serving notify`: shows the notices of a job, and sends again those that were given up. */
import { isTargetName, NAME_RULE } from '../../lib/contract/notice.ts';
import { defineCommand, wrongUse } from '../command.ts';
import { EXIT } from '../output.ts';
import { findService, JOB, notRunning, SERVICE_OPTIONS } from '../service.ts';
import { withNotices } from './notices.ts';
import { noticesText } from './text.ts';

export const command = defineCommand({
  name: 'notify',
  usage: ['<list | resume> [<target>] [options]'],
  about: `Targets of \`notify\` in config.yaml are notified when records are done. What a target did not take within a day is
given up and kept for 14 days; a target that answered 410 is paused, and all of its notices are given up.`,
  actions: {
    list: ['', 'show what waits and what was given up, by target, and which targets are paused'],
    resume: ['[<target>]', 'end the pause of a target, or of all, and send again what was given up'],
  },
  options: {
    ...SERVICE_OPTIONS,
    'queue-url': { group: 'Connection', value: 'url', about: 'SQS queue of the records of another service' },
    bucket: { group: 'Connection', value: 'name', about: 'its bucket' },
    job: JOB,
  },
  examples: ['notify list', 'notify resume shop --stack cluster-serving-prod'],
  async run(values, output, [target, ...others], action) {
    if (others.length > 0 || (action === 'list' && target !== undefined))
      throw wrongUse(`notify ${action}: unexpected ${JSON.stringify(others[0] ?? target)}`);
    if (target !== undefined && !isTargetName(target))
      throw wrongUse(`notify resume ${JSON.stringify(target)}: expected ${NAME_RULE}`);
    const service = await findService(values);
    if (!service) return notRunning(values, output, '--stack, or --queue-url with --bucket');
    const { job, bucket, queueUrl, endpoint, region } = service;
    if (bucket === undefined || queueUrl === undefined)
      throw wrongUse('notify: which service? Give --stack, or --queue-url with --bucket');
    return withNotices({ job, bucket, queueUrl, endpoint, region }, async (notices) => {
      const facts = await notices.facts();
      if (!facts)
        output.answer({ job, targets: false }, `the job ${job} has no targets: \`notify\` in config.yaml`);
      else if (action === 'list') output.answer({ job, ...facts }, noticesText(facts));
      else {
        const sent = await notices.resume(target);
        const whose = target === undefined ? 'all targets' : target;
        output.answer({ job, target, sent }, `${sent} given up notices of ${whose} are sent again`);
      }
      return EXIT.ok;
    });
  },
});
