/** The part of a stack that looks at versions on trial, and what reaches Redis, or the table of results. */
import { type JobConfig, trialsSeconds } from '../../lib/config/job.ts';

/**
 * The functions with Redis and their roles.
 * @param withRedis names of those functions
 */
export function trialSettings(job: JobConfig, withRedis: readonly string[]) {
  const has = job.release.trials;
  const redisRoles = ['PredictRole', 'BatchRole', 'PredictionsRole', 'StatusRole', 'DeadLetterRole'];
  if (has) redisRoles.push('TrialsRole');
  return {
    redisRoles: refsOf(redisRoles),
    tableRoles: tableRoles(has),
    functionGroupDependencies: [...redisRoles, 'InterfacesPolicy'],
    redisFunctions: withRedis.map((name) => ({
      'Fn::Sub': `arn:\${AWS::Partition}:lambda:\${AWS::Region}:\${AWS::AccountId}:function:${name}`,
    })),
    trialsSeconds: trialsSeconds(job),
  };
}

/** Roles by what their functions do with the table of results. */
function tableRoles(hasTrials: boolean) {
  const trials = hasTrials ? ['TrialsRole'] : [];
  const readMany = ['BatchRole', 'PredictionsRole', 'StatusRole', 'DeadLetterRole'];
  const read = ['PredictRole', 'SubmitRole', ...readMany];
  return {
    write: refsOf([...read, ...trials]),
    read: refsOf(read),
    readMany: refsOf([...readMany, ...trials]),
  };
}

function refsOf(names: readonly string[]) {
  return names.map((Ref) => ({ Ref }));
}
