/** Tensors as a picture, as numbers and by their values; one place is shown in all of them. */

import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { shadeOf } from "../model/elements";
import { count, exact } from "../model/format";
import { SHADES } from "../model/heatmap";
import { type Layer, nextOf, summaryOf, worstOf } from "../model/layers";
import { flatOf, indexOf, leadingOf, planeOf, planeStart } from "../model/tensor";
import { useQuery } from "../state/router";
import { TensorHistogram } from "./TensorHistogram";
import { type Colour, type Place, TensorPicture } from "./TensorPicture";
import { TensorTable } from "./TensorTable";

const VIEWS = { picture: "Picture", table: "Numbers", histogram: "Histogram" } as const;
type View = keyof typeof VIEWS;

/** NaN and infinities among values that are grey. */
const STRANGE: Colour = 0xc5321f;
const GREY: Colour = 0x808080;

const notFinite = (value: number) => !Number.isFinite(value);

export function TensorViewer(props: {
  layers: readonly Layer[];
  /** More that is to be had: chosen, it is asked for, and comes among the layers. */
  more?: readonly { id: string; name: string }[];
  ask?: (id: string) => void;
  /** What is said of an element of a layer. */
  said: (layer: Layer, flat: number) => string;
  /** Of the layers that are compared: the number of each element's workgroup. */
  numbers?: Uint32Array | null;
  children?: ComponentChildren;
}) {
  const { layers, more = [], said } = props;
  const [chosen, setChosen] = useState(layers[0]?.id ?? "");
  const [view, setView] = useState<View>("picture");
  const [places, setPlaces] = useState<Record<string, number>>({});
  const [element, setElement] = useQuery("element", "looking");
  const layer = layers.find(({ id }) => id === chosen) ?? layers[0];
  if (layer === undefined) return null;
  const where = layer.shape.join();
  const flat = places[where] ?? flatOf(layer.shape, element) ?? worstOf(layer);
  const go = (to: number) => {
    setPlaces((old) => ({ ...old, [where]: to }));
    setElement(indexOf(layer.shape, to).join("."));
  };
  return (
    <figure class="stack tight heat tensor-viewer">
      <div class="row">
        {layers.length + more.length > 1 && (
          <label>
            shows{" "}
            <select
              value={layer.id}
              onChange={({ currentTarget }) => {
                setChosen(currentTarget.value);
                if (more.some(({ id }) => id === currentTarget.value)) props.ask?.(currentTarget.value);
              }}
            >
              {[...layers, ...more].map(({ id, name }) => (
                <option key={id} value={id}>
                  {name}
                </option>
              ))}
            </select>
          </label>
        )}
        <fieldset class="row views" aria-label="How it is shown">
          {(Object.keys(VIEWS) as View[]).map((id) => (
            <button key={id} type="button" aria-pressed={view === id} onClick={() => setView(id)}>
              {VIEWS[id]}
            </button>
          ))}
        </fieldset>
      </div>
      {layer.values.length === 0 ? (
        <p class="muted">It has no elements: its shape is [{layer.shape.join(", ")}].</p>
      ) : (
        <Shown {...{ layer, view, flat, go }} numbers={layer.times ? (props.numbers ?? null) : null}>
          <output class="heat-readout" aria-live="polite">
            {said(layer, flat)}
          </output>
        </Shown>
      )}
    </figure>
  );
}

/** What is said where there is nothing to compare with. */
export function elementSaid({ shape, text }: Layer, flat: number): string {
  return `[${indexOf(shape, flat).join(", ")}]: ${text(flat)}`;
}

function Shown(props: {
  layer: Layer;
  view: View;
  flat: number;
  go: (flat: number) => void;
  numbers: Uint32Array | null;
  children: ComponentChildren;
}) {
  const { layer, view, flat, go } = props;
  const { shape, values } = layer;
  const plane = useMemo(() => planeOf(shape), [shape.join()]);
  const summary = useMemo(() => summaryOf(values), [values]);
  const legend = useRef<HTMLUListElement>(null);
  const shades = useShades(legend, layer.shades);
  const leading = leadingOf(plane, flat);
  const start = planeStart(plane, leading);
  const at = { row: Math.floor((flat - start) / plane.columns), column: (flat - start) % plane.columns };
  const setAt = ({ row, column }: Place) => go(start + row * plane.columns + column);
  const { least, most } = summary;
  const colour = (element: number): Colour => {
    const value = values[element] ?? 0;
    if (layer.shades) return shades[shadeOf(value)] ?? GREY;
    if (!Number.isFinite(value)) return STRANGE;
    return most > least ? 0x10101 * Math.round(20 + (220 * (value - least)) / (most - least)) : GREY;
  };
  const strange = [
    ...(summary.nan > 0 ? [`${summary.nan} NaN`] : []),
    ...(summary.infinite > 0 ? [`${summary.infinite} infinite`] : []),
  ];
  return (
    <>
      {plane.leading.some((extent) => extent > 1) && (
        <div class="row">
          {plane.leading.map(
            (extent, axis) =>
              extent > 1 && (
                <label key={axis}>
                  axis {axis}{" "}
                  <input
                    type="number"
                    class="slice"
                    min={0}
                    max={extent - 1}
                    value={leading[axis]}
                    onInput={({ currentTarget }) => {
                      const wanted = Math.floor(currentTarget.valueAsNumber || 0);
                      const value = Math.min(extent - 1, Math.max(0, wanted));
                      const moved = leading.map((old, other) => (other === axis ? value : old));
                      go(planeStart(plane, moved) + flat - start);
                    }}
                  />
                </label>
              ),
          )}
        </div>
      )}
      {view === "picture" && (
        <TensorPicture
          name={`${layer.name} of each element`}
          {...{ plane, start, colour, at, setAt }}
          weights={values}
          numbers={props.numbers}
          drawn={`${layer.id} ${shades.join(" ")}`}
        />
      )}
      {view === "table" && <TensorTable {...{ layer, plane, start, at, setAt }} />}
      {view === "histogram" && <TensorHistogram {...{ layer, summary, flat, go }} />}
      {props.children}
      {layer.shades ? (
        <ul ref={legend} class="row heat-legend" aria-label="Shades">
          {SHADES.map((name, shade) => (
            <li key={name}>
              <span class={`heat-swatch shade shade-${shade}`} aria-hidden="true" />
              {name}
            </li>
          ))}
        </ul>
      ) : (
        <p class="muted">
          {view === "picture"
            ? `From ${exact(least)} (dark) to ${exact(most)} (light); NaN and infinities are red.`
            : `From ${exact(least)} to ${exact(most)}, ${count(values.length, "element")}.`}{" "}
          {strange.length > 0 && (
            <button type="button" class="link" onClick={() => go(nextOf(values, flat, notFinite) ?? flat)}>
              Go to the next of {strange.join(" and ")}
            </button>
          )}
        </p>
      )}
    </>
  );
}

/** The colours of the legend's swatches, which follow the page's theme. */
function useShades(legend: { current: HTMLUListElement | null }, shown: boolean): Colour[] {
  const [shades, setShades] = useState<Colour[]>([]);
  const scheme = getComputedStyle(document.documentElement).colorScheme;
  useEffect(() => {
    if (!shown) return;
    const read = () =>
      setShades([...(legend.current?.querySelectorAll(".heat-swatch") ?? [])].map(backgroundOf));
    read();
    const query = matchMedia("(prefers-color-scheme: dark)");
    query.addEventListener("change", read);
    return () => query.removeEventListener("change", read);
  }, [shown, scheme]);
  return shades;
}

function backgroundOf(element: Element): Colour {
  const [red = 128, green = 128, blue = 128] =
    getComputedStyle(element)
      .backgroundColor.match(/[\d.]+/g)
      ?.map(Number) ?? [];
  return (red << 16) | (green << 8) | blue;
}
