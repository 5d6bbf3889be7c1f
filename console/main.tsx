/** The page: who is there, and its four views. */
import { render } from 'preact';
import { useEffect, useLayoutEffect, useState } from 'preact/hooks';
import { type Address, addressIn } from './address.ts';
import type { ModelFacts } from './api.ts';
import { takeToken, token } from './client.ts';
import { LiveView } from './live/view.tsx';
import { ModelView } from './model.tsx';
import { linkedRecord, RecordsView } from './stored/records.tsx';
import { ReplayCard } from './stored/replay.tsx';
import { VersionsView } from './stored/versions.tsx';
import { type Asked, Loaded, Problem, useAsked } from './ui.tsx';

const VIEWS = { model: 'Model', live: 'Live', records: 'Records', versions: 'Versions' } as const;
type View = keyof typeof VIEWS;

function viewOf({ view }: Address): View {
  return Object.hasOwn(VIEWS, view) ? (view as View) : 'model';
}

function Page() {
  const [address, setAddress] = useState(() => addressIn(location.hash));
  const view = viewOf(address);
  const model = useAsked<ModelFacts>('model');
  // With the links, not after the first frame: a link can be followed before it.
  useLayoutEffect(() => {
    const follow = () => setAddress(addressIn(location.hash));
    addEventListener('hashchange', follow);
    return () => removeEventListener('hashchange', follow);
  }, []);
  const facts = model.value && 'job' in model.value ? model.value : undefined;
  useEffect(() => {
    document.title = `${VIEWS[view]}${facts ? ` · ${facts.job}` : ''} · Cluster Serving`;
  }, [view, facts?.job]);
  const isLocked = model.error?.status === 401;
  return (
    <>
      <Head facts={facts} model={model} view={view} />
      <main id="main">
        <h1 class="hidden">{VIEWS[view]}</h1>
        {isLocked ? (
          <TokenForm wasWrong={token.get() !== ''} onToken={model.again} />
        ) : (
          <Shown view={view} chosen={address.chosen} model={model} />
        )}
      </main>
    </>
  );
}

interface ShownOptions {
  readonly view: View;
  readonly chosen: URLSearchParams;
  readonly model: Asked<ModelFacts>;
}

function Shown({ view, chosen, model }: ShownOptions) {
  if (view === 'live') return <LiveView />;
  if (view === 'records') return <RecordsView linked={linkedRecord(chosen)} />;
  if (view === 'versions')
    return (
      <div class="stack">
        <VersionsView onActivated={model.again} />
        <ReplayCard />
      </div>
    );
  return (
    <Loaded asked={model}>{(facts) => <ModelView facts={facts} filled={chosen.get('form') ?? ''} />}</Loaded>
  );
}

function Head({
  facts,
  model,
  view,
}: {
  facts: ModelFacts | undefined;
  model: Asked<ModelFacts>;
  view: View;
}) {
  const state = model.error ? 'off' : model.value ? 'on' : 'wait';
  const words = {
    on: 'online',
    off: model.error?.status === 401 ? 'needs a token' : 'not reachable',
    wait: 'connecting',
  };
  // A single machine has a page of documentation. Not behind a token, because a link sends none.
  const hasDocs = facts?.caller.url === undefined && facts?.caller.auth === 'none';
  return (
    <header class="head">
      <a class="skip" href="#main" onClick={skip}>
        To the content
      </a>
      <div class="who">
        <b class="product">Cluster Serving</b>
        {facts && <b class="job">{facts.job}</b>}
        {facts && <code title="Version of the model">{facts.version}</code>}
        <span class={`state ${state}`}>{words[state]}</span>
      </div>
      <nav aria-label="Views">
        {Object.entries(VIEWS).map(([name, title]) => (
          <a key={name} href={`#${name}`} aria-current={name === view ? 'page' : undefined}>
            {title}
          </a>
        ))}
        {hasDocs && <a href="docs">API docs</a>}
      </nav>
    </header>
  );
}

/** The hash names the view, so it cannot name the content. */
function skip(event: Event) {
  event.preventDefault();
  const content = document.querySelector<HTMLElement>(
    'main a, main button, main input, main textarea, main summary',
  );
  content?.focus();
}

function TokenForm({ wasWrong, onToken }: { wasWrong: boolean; onToken: () => Promise<void> }) {
  const [text, setText] = useState('');
  const submit = (event: Event) => {
    event.preventDefault();
    token.set(text.trim());
    void onToken();
  };
  return (
    <form class="card token" onSubmit={submit}>
      <h2>This service needs its token</h2>
      <p class="quiet">
        It is in the file that <code>--token-file</code> names, or in the file <code>token</code> of the data
        folder with <code>--make-token</code>. This tab forgets it when it is closed.
      </p>
      {wasWrong && <Problem text="The service does not know this token." />}
      <label>
        Token
        <input
          type="password"
          autocomplete="off"
          value={text}
          required
          onInput={(event) => setText(event.currentTarget.value)}
        />
      </label>
      <button type="submit" class="main">
        Open
      </button>
    </form>
  );
}

takeToken();
const place = document.querySelector('#page');
if (place) {
  place.replaceChildren();
  render(<Page />, place);
}
