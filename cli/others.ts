/** Starts and shows services beside others: the old commands started any number of jobs, told apart by `jobName`. */
import { findRunning, type StackRecord } from '../local/service/data-folder.ts';
import { folderBeside, otherServices, type Service } from '../local/service/services.ts';
import { readSettings, type StartSettings, type StartValues } from '../local/service/start-options.ts';
import type { Output } from './output.ts';

const FREE_PORTS = { port: '0', 'aws-port': '0', 'redis-port': '0' };

/**
 * The settings of a start. A job that another service is in the way of gets a folder of its own and free ports, where no
 * option says otherwise. @throws bad_config
 */
export async function settingsBeside(values: StartValues, output: Output): Promise<StartSettings> {
  const settings = readSettings(values);
  const { dataDir, jobs } = settings;
  const isOther = ({ record }: Service) =>
    !record.jobs.some(({ job }) => jobs.some((own) => own.job.jobName === job));
  const record = values['data-dir'] === undefined ? (await findRunning(dataDir))?.record : undefined;
  const here = [record ?? []].flat().map((found) => ({ dataDir, record: found }));
  const holders = (await otherServices(dataDir)).filter((service) => holdsPort(service.record, settings));
  const found = [...here, ...holders].find(isOther);
  if (found === undefined) return settings;
  const { job } = jobs[0];
  const folder = found.dataDir === dataDir ? { 'data-dir': folderBeside(dataDir, job.jobName) } : {};
  const said = Object.entries(values).filter(([, value]) => value !== undefined);
  const beside = readSettings({ ...FREE_PORTS, ...folder, ...Object.fromEntries(said) });
  output.note(`note: the ${jobTexts(found)[0]}; this one takes free ports and ${beside.dataDir}`);
  return beside;
}

function holdsPort(record: StackRecord, { ports }: StartSettings): boolean {
  const urls = [
    ...record.jobs.map(({ http }) => http),
    record.redisUrl,
    record.environment['AWS_ENDPOINT_URL'],
  ];
  const held = urls.filter((url) => url !== undefined).map((url) => Number(new URL(url).port));
  return held.some((port) => [ports.http, ports.aws, ports.redis].includes(port));
}

/** A line for each job of a service. */
export function jobTexts({ dataDir, record }: Service): string[] {
  return record.jobs.map(({ job, http }) => `job ${job} runs at ${http} (--data-dir ${dataDir})`);
}
