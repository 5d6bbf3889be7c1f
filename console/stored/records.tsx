/** The dead letters, which need attention, and below them the last records of the queue. */
import { useEffect, useState } from 'preact/hooks';
import { linkTo } from '../address.ts';
import type { RecentRecords, RecordFacts } from '../api.ts';
import { errorText, resultOf } from '../client.ts';
import { clipped, indented } from '../try/answer.ts';
import { Card, Choice, CopyButton, Empty, Loaded, Problem, timeText, useAsked } from '../ui.tsx';
import { csvOf } from './csv.ts';
import { DeadLettersCard } from './dead-letters.tsx';
import { JobsCard } from './jobs.tsx';
import { NoticesCard } from './notices.tsx';

/** A record that a link names. */
interface Linked {
  readonly uri: string;
  /** The enqueue to show. Default: the last one. */
  readonly identity?: string | undefined;
}

/** @param chosen of the address of the page */
export function linkedRecord(chosen: URLSearchParams): Linked | undefined {
  const [uri, identity] = [chosen.get('uri'), chosen.get('identity')];
  return uri ? { uri, identity: identity || undefined } : undefined;
}

export function RecordsView({ linked }: { linked: Linked | undefined }) {
  const records = useAsked<RecentRecords>('records');
  return (
    <div class="stack">
      {linked && <LinkedCard key={`${linked.uri} ${linked.identity}`} {...linked} />}
      <DeadLettersCard onReplayed={records.again} />
      <NoticesCard />
      <JobsCard />
      <Card title="Recent records" aside={<span class="quiet">of the queue, newest first</span>}>
        <Loaded asked={records}>{(value) => <Records records={value.records} />}</Loaded>
      </Card>
    </div>
  );
}

const SHOWN = ['All', 'Failed'] as const;

function Records({ records }: { records: readonly RecordFacts[] }) {
  const [sought, setSought] = useState('');
  const [shown, setShown] = useState<(typeof SHOWN)[number]>('All');
  if (records.length === 0) {
    return (
      <Empty title="No record has come through the queue yet.">
        Enqueue one with the SDK, <code>cluster-serving enqueue</code> or <code>POST /predictions</code>. The
        last 200 since the start are listed here; their results stay in Redis.
      </Empty>
    );
  }
  const found = records.filter((record) => {
    const { uri, status, code = '', error = '', result = '' } = record;
    const text = [uri, status, code, error, result].join(' ').toLowerCase();
    return (shown === 'All' || status === 'failed') && text.includes(sought.trim().toLowerCase());
  });
  return (
    <>
      <div class="tools">
        <label class="field search">
          <span>Find a record by its uri, state, error or result</span>
          <input type="search" value={sought} onInput={(event) => setSought(event.currentTarget.value)} />
        </label>
        <Choice label="State" options={SHOWN} value={shown} onChange={setShown} />
        <SaveButton records={found} />
      </div>
      <ul class="rows">
        {found.map((record) => (
          <RecordRow key={`${record.identity} ${record.finishedAt}`} record={record} />
        ))}
      </ul>
      {found.length === 0 && <p class="quiet">None of the last {records.length} records matches.</p>}
    </>
  );
}

function RecordRow({ record }: { record: RecordFacts }) {
  const { uri, status, finishedAt, model, result, error, code, identity } = record;
  const { full, load } = useResult(record);
  const link = linkTo('records', { uri, identity });
  return (
    <li>
      <details
        onToggle={(event) => {
          if (event.currentTarget.open && !full?.text) void load();
        }}
      >
        <summary>
          <span class={`badge ${status}`}>{status}</span>
          <span class="uri">{uri}</span>
          <time class="quiet" dateTime={finishedAt}>
            {timeText(finishedAt)}
          </time>
          <span class="quiet result">{status === 'failed' ? `${code}: ${error}` : result || 'a value'}</span>
        </summary>
        <div class="detail">
          {model !== '' && (
            <p class="quiet">
              By version <code>{model}</code>, identity <code>{identity}</code>
            </p>
          )}
          <FullResult full={full} />
          {link !== undefined && <CopyButton text={link} what="a link to this record" label="Copy link" />}
        </div>
      </details>
    </li>
  );
}

/** The record of a link, which may be older than those that are listed. */
function LinkedCard({ uri, identity }: Linked) {
  const { full, load } = useResult({ uri, identity });
  useEffect(() => void load(), []);
  return (
    <Card title="Linked record" aside={<a href="#records">Close</a>}>
      <p>
        <code>{uri}</code>
        {identity !== undefined && (
          <>
            , identity <code>{identity}</code>
          </>
        )}
      </p>
      <FullResult full={full} />
    </Card>
  );
}

interface Full {
  readonly text?: string;
  readonly error?: string;
}

function useResult({ uri, identity }: Linked) {
  const [full, setFull] = useState<Full>();
  const load = async () => {
    try {
      setFull({ text: indented(await resultOf(uri, identity)) });
    } catch (failure) {
      setFull({ error: errorText(failure) });
    }
  };
  return { full, load };
}

function FullResult({ full }: { full: Full | undefined }) {
  return (
    <>
      {full === undefined && <p class="quiet">Loading…</p>}
      {full?.error !== undefined && <Problem text={full.error} />}
      {full?.text !== undefined && <pre tabIndex={0}>{clipped(full.text)}</pre>}
    </>
  );
}

function SaveButton({ records }: { records: readonly RecordFacts[] }) {
  const save = () => {
    const address = URL.createObjectURL(new Blob([csvOf(records)], { type: 'text/csv' }));
    const link = document.createElement('a');
    link.href = address;
    link.download = 'records.csv';
    link.click();
    // The browser has opened it by then.
    setTimeout(() => URL.revokeObjectURL(address), 60_000);
  };
  return (
    <button type="button" class="small" onClick={save} disabled={records.length === 0}>
      Save as CSV
    </button>
  );
}
