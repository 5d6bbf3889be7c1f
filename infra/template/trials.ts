/** The part of a stack that looks at versions on trial, and what reaches Redis. */
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
    redisRoles: redisRoles.map((Ref) => ({ Ref })),
    functionGroupDependencies: [...redisRoles, 'InterfacesPolicy'],
    redisFunctions: withRedis.map((name) => ({
      'Fn::Sub': `arn:\${AWS::Partition}:lambda:\${AWS::Region}:\${AWS::AccountId}:function:${name}`,
    })),
    trialsSeconds: trialsSeconds(job),
  };
}
