import { useState } from "preact/hooks";

export function CopyButton(props: { text: () => Promise<string>; name: string }) {
  const [state, setState] = useState("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(await props.text());
      setState("Copied");
    } catch (error) {
      setState(error instanceof Error ? `Not copied: ${error.message}` : "Not copied");
    }
    setTimeout(() => setState(""), 3000);
  };
  return (
    <>
      <button type="button" onClick={copy}>
        {props.name}
      </button>
      <span role="status" class="muted">
        {state}
      </span>
    </>
  );
}
