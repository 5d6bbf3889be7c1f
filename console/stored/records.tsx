/** The dead letters, which need attention, and below them the last records of the queue. */
import { useState } from 'preact/hooks';
import type { RecentRecords, RecordFacts } from '../api.ts';
import { errorText, resultOf } from '../client.ts';
import { clipped, indented } from '../try/answer.ts';
import { Card, Empty, Loaded, Problem, timeText, useAsked } from '../ui.tsx';
import { DeadLettersCard } from './dead-letters.tsx';
import { JobsCard } from './jobs.tsx';
import { NoticesCard } from './notices.tsx';

export function RecordsView() {
  const records = useAsked<RecentRecords>('records');
  return (
    <div class="stack">
      <DeadLettersCard onReplayed={records.again} />
      <NoticesCard />
      <JobsCard />
      <Card title="Recent records" aside={<span class="quiet">of the queue, newest first</span>}>
        <Loaded asked={records}>{(value) => <Records records={value.records} />}</Loaded>
      </Card>
    </div>
  );
}

function Records({ records }: { records: readonly RecordFacts[] }) {
  const [sought, setSought] = useState('');
  if (records.length === 0) {
    return (
      <Empty title="No record has come through the queue yet.">
        Enqueue one with the SDK, <code>cluster-serving enqueue</code> or <code>POST /predictions</code>. The
        last 200 since the start are listed here; their results stay in Redis.
      </Empty>
    );
  }
  const found = records.filter(({ uri, code }) => `${uri} ${code ?? ''}`.includes(sought));
  return (
    <>
      <label class="field search">
        <span>Find a record by its uri or error code</span>
        <input type="search" value={sought} onInput={(event) => setSought(event.currentTarget.value)} />
      </label>
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
  const [full, setFull] = useState<{ text?: string; error?: string }>();
  const load = async () => {
    try {
      setFull({ text: indented(await resultOf(uri, identity)) });
    } catch (failure) {
      setFull({ error: errorText(failure) });
    }
  };
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
          {full === undefined && <p class="quiet">Loading…</p>}
          {full?.error !== undefined && <Problem text={full.error} />}
          {full?.text !== undefined && <pre tabIndex={0}>{clipped(full.text)}</pre>}
        </div>
      </details>
    </li>
  );
}
