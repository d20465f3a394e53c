"""Configuration of the judge."""

import json
import re
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, model_validator

from spanscore.judge import provider, redaction
from spanscore.judge.redaction import Rule
from spanscore.model.options import ByteSize, Duration, Options, duration_ns

_RESERVED = re.compile(
    "model|messages|api_key|api_base|base_url|timeout|temperature|max_(completion_)?tokens|response_format|num_retries"
    "|max_retries|fallbacks|stream|n|tools|callbacks|success_callback|failure_callback"
)
_OF_SAMPLES = 0.7
"""The temperature of several samples, unless another is set: at 0 they would be alike."""

_MAX_BANDS_CHARACTERS = 1_000_000

Limit = Annotated[float, Field(allow_inf_nan=False)]


def not_reserved(extra: dict[str, Any]) -> dict[str, Any]:
    """`extra`. Raises ValueError where it has what spanscore sets itself."""
    taken = [name for name in extra if _RESERVED.fullmatch(name)]
    if taken:
        raise ValueError(
            f"{', '.join(taken)} cannot be set here: spanscore sets it itself, or has a key of"
            " its own"
        )
    return extra


def _compiles(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from error
    return pattern


def _ends_in_star(allowed: str) -> str:
    if "*" in allowed[:-1]:
        raise ValueError(
            f"{allowed}: a * stands at the end only, for all names that begin so, such as openai/*"
        )
    return allowed


def _read_bands(given: Any) -> Any:
    """The bands in the file that `given` names; bands themselves as they are."""
    if not isinstance(given, str):
        return given
    try:
        with Path(given).open(encoding="utf-8") as file:
            return json.loads(file.read(_MAX_BANDS_CHARACTERS))
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{given}: no file as `spanscore calibrate --unsure FILE` writes it ({error})"
        ) from None


def _in_order(band: tuple[float, float]) -> tuple[float, float]:
    if band[0] > band[1]:
        raise ValueError(f"{list(band)}: the lower limit stands first")
    return band


class Price(Options):
    """What a model costs, where the built-in price list does not know it or is wrong."""

    input_usd_per_million_tokens: float = Field(ge=0)
    """USD for a million input tokens."""

    output_usd_per_million_tokens: float = Field(ge=0)
    """USD for a million output tokens."""


class Backoff(Options):
    """How long to wait between tries of one model."""

    initial_interval: Duration = duration_ns("1s")
    """The wait before the first retry, doubled for each further one; half of it is random."""

    max_interval: Duration = duration_ns("30s")
    """The longest wait that is chosen by doubling. A provider's Retry-After may ask for more."""

    max_elapsed_time: Duration = duration_ns("3m")
    """The bound on all calls for one answer of one model and the waits after failed ones; after it
    the next model is asked. Waiting for a turn under a rate limit does not count, unless the model
    refuses all calls for that long.
    """


class Budget(Options):
    """What may be spent on judging in one hour or day, by all servers that share a store in
    PostgreSQL, else by this process; what is past it is skipped.
    """

    max_tokens: int | None = Field(default=None, ge=1)
    """Input and output tokens together; null: no limit."""

    max_usd: float | None = Field(default=None, gt=0)
    """USD; null: no limit.

    A model whose price is not known cannot be asked under this limit (see `prices`).
    """

    per: Literal["hour", "day"] = "day"
    """The window: clock hours or days, in UTC."""

    @property
    def window_ns(self) -> int:
        """How long a window is."""
        return duration_ns("1h") if self.per == "hour" else duration_ns("24h")


class CacheConfig(Options):
    """Whether an answer is kept, so that the same question about the same transcript is not paid
    for twice.
    """

    enabled: bool = True
    """Keep valid answers, in the store where there is one."""

    max_entries: int = Field(default=4096, ge=1)
    """Answers kept in memory where there is neither store nor file."""

    between_runs: bool = True
    """Whether the commands that ask a judge (`eval`, `test`, `best-of`, `calibrate`) keep answers
    in a file, so that no run pays for what an earlier one asked. `--no-cache` turns it off for one
    run.
    """

    path: Path | None = None
    """That file; null: `spanscore/answers.db` in the user's cache folder, which XDG_CACHE_HOME may
    name.
    """

    max_bytes: ByteSize = 256 * 2**20
    """Bytes of answers in that file at most; those not used for longest go first."""


class RedactConfig(Options):
    """What is replaced before anything is sent to a provider."""

    enabled: bool = True
    """Replace secrets and personal data by markers such as `[REDACTED:email]`."""

    patterns: dict[
        Annotated[str, Field(pattern="^[a-z][a-z0-9_]{0,31}$")],
        Annotated[str, AfterValidator(_compiles)],
    ] = {}
    """Further kinds and their regular expressions, e.g. `customer_id: 'C-\\d{8}'`; a named group is
    the part to replace. They run on hostile text: nothing like `(a+)+`.
    """

    @property
    def rules(self) -> tuple[Rule, ...]:
        """What is redacted; nothing when redaction is off."""
        return redaction.rules(self.patterns) if self.enabled else ()


class Cascade(Options):
    """A cheaper model that is asked first, and the scores of it that leave in doubt whether the
    trace passes.
    """

    model: str = Field(min_length=1)
    """The model that is asked first, as litellm names it."""

    unsure: Annotated[
        dict[str, Annotated[tuple[Limit, Limit], AfterValidator(_in_order)]],
        BeforeValidator(_read_bands),
    ]
    """By metric, the lowest and the highest of the first model's scores that are in doubt, both
    included: after these `judge.model` is asked. Or the file that `spanscore calibrate --unsure
    FILE` wrote of the first model's scores. A metric that is not named is asked of `judge.model` at
    once.
    """


class Certificate(Options):
    """What earns a judge its certificate, where `judge.require` asks for one."""

    min_labels: int = Field(default=150, ge=1)
    """Labels that a certificate rests on at least. With 75 of each class a judge that is right on
    67 of them, 89 %, has both lower bounds at 0.8; with 34 only one that is never wrong has. Labels
    certify once: with fewer a good judge would use them up in vain.
    """

    lower_bound: float = Field(default=0.8, gt=0, lt=1)
    """What the lower bounds of the 95 % intervals of sensitivity and specificity must reach."""

    uncertified: Literal["say", "refuse"] = "say"
    """What rests on the labels of a judge without a certificate: monitors of pass rates, and the
    gates of `eval --fail-under` and `test`. `say`: they say so. `refuse`: monitors leave these
    scores out, and gates are not met.
    """


class Config(Options):
    """The judge: a language model. Without one, judged metrics are skipped."""

    model: Annotated[str | None, BeforeValidator(lambda model: model or None)] = None
    """The model that is asked first, as litellm names it, e.g. `openai/gpt-4o-mini`. null: none,
    and judged metrics are skipped. Needs `pip install 'spanscore[judge]'`.
    """

    require: Literal["certified"] | None = None
    """`certified`: scores carry whether a certificate holds for their judge (docs/trust.md).
    null: nothing is required.
    """

    certificate: Certificate = Certificate()
    """What earns a judge its certificate."""

    recorded_answers: Path | None = None
    """A file of recorded answers. The judge gives these and no others: nothing is sent, and `model`
    only says whose they are. `spanscore demo` replays such a file.
    """

    fallback_models: tuple[str, ...] = ()
    """Models to ask, in order, when the one before gave no valid answer."""

    allowed_models: (
        tuple[Annotated[str, Field(min_length=1), AfterValidator(_ends_in_star)], ...] | None
    ) = None
    """Models that requests to the API may name beside those of the configuration: names, or
    beginnings of names with a `*`, such as `openai/*`; `*` alone is every model. null: every model
    where `api.auth` is not set and `tenancy` is not enabled, else none.
    """

    plan: Literal["staged", "fused"] = "fused"
    """`fused`: all metrics of a trace share one call, or more where the judge cannot read or write
    as much at once. `staged`: one call for each stage of each metric.
    """

    try_at_start: bool = True
    """Whether the server asks each model one tiny question when it starts, and again while one does
    not answer: so that a wrong key is in the log and in the health check before the first trace
    comes. false, as in an agent's own process: it asks once a score got no answer.
    """

    timeout: Duration = duration_ns("60s")
    """The longest that one call may take."""

    max_retries: int = Field(default=4, ge=0, le=100)
    """Retries of a call after a 408, 409, 5xx, time-out or connection error, before the next model
    is asked. A call that a rate limit refuses (429) keeps its place in the queue and is not
    counted.
    """

    backoff: Backoff = Backoff()
    """How long to wait between tries of one model."""

    max_concurrent: int = Field(default=32, ge=1)
    """Calls under way at once, of all models; one that waits for its turn or for a retry is not. Of
    each model there are 16 at first, one more for each answer while all of these are in use, and
    half as many after a time-out.
    """

    requests_per_minute: float | None = Field(default=None, gt=0)
    """Calls of each model in a minute that all servers which share a store in PostgreSQL together,
    else one process, never exceed, with whatever judges their rules name; they are spaced evenly.
    null: what the provider takes is learned from its headers and its refusals, by each process for
    itself, as it is below the configured limit.
    """

    tokens_per_minute: float | None = Field(default=None, gt=0)
    """The same for tokens of input and output together, as the judge expects them before each
    call.
    """

    temperature: float | None = Field(default=0.0, ge=0, le=2)
    """Sampling temperature; dropped for models that refuse one. null: the model's own default. With
    `samples` it is 0.7 unless it is set here.
    """

    samples: int = Field(default=1, ge=1, le=20)
    """How often each judged metric, and the rubric, is asked. With more than one answer the score
    is their mean, and its metadata have their spread.
    """

    cascade: Cascade | None = None
    """A cheaper model that is asked first; `model` is asked where that one's score is in doubt."""

    max_transcript_tokens: int = Field(default=32_000, ge=500)
    """The length a transcript is shortened to, in estimated tokens (three bytes of UTF-8 each);
    what a test case adds to the rubric counts towards it.
    """

    attachments: bool = False
    """Send the pictures of the user's input to the judge, each counted as 1,100 tokens of
    `max_transcript_tokens`, of which they take half at most; the transcript only names the others.
    Only those with an http or https address in which nothing is redacted are sent: a picture's
    bytes are never kept. Every model that is asked must take pictures.
    """

    max_output_tokens: int = Field(default=4096, ge=64)
    """The longest answer, in tokens; models that reason need room for that as well."""

    max_verdicts: int = Field(default=300, ge=1)
    """Tool calls of a trace that argument_correctness has judged one by one; of more calls a random
    sample of as many, and the score then has an interval.
    """

    json_schema: Literal["auto", "always", "never"] = "auto"
    """Whether the answer's schema is given as `response_format` or in the text. `auto`: as
    `response_format` where litellm's model list says that the model supports it.
    """

    api_base: Annotated[str | None, BeforeValidator(lambda url: url or None)] = None
    """The provider's address, where it is not the public one.

    Used for models of `model`'s provider only.
    """

    api_key: Annotated[SecretStr | None, BeforeValidator(lambda key: key or None)] = None
    """The provider's key; null: its environment variable, e.g. OPENAI_API_KEY. Used for models of
    `model`'s provider only.
    """

    prices: dict[str, Price] = {}
    """Prices by model name, in place of litellm's list."""

    budget: Budget = Budget()
    """What may be spent."""

    cache: CacheConfig = CacheConfig()
    """Whether answers are kept."""

    redact: RedactConfig = RedactConfig()
    """What is hidden from providers."""

    extra: Annotated[dict[str, Any], AfterValidator(not_reserved)] = Field(default={}, repr=False)
    """Further parameters of litellm's `acompletion`, e.g. `reasoning_effort: low`."""

    @model_validator(mode="after")
    def _samples_differ(self) -> Self:
        self.refuse_equal_samples()
        return self

    def refuse_equal_samples(self) -> None:
        """Raise ValueError where several samples are asked for that would be alike."""
        if self.samples > 1 and self.temperature == 0 and "temperature" in self.model_fields_set:
            raise ValueError(
                f"samples: {self.samples} with temperature: 0 asks for the same answer"
                f" {self.samples} times; leave temperature out, or set one above 0"
            )

    @property
    def sampling_temperature(self) -> float | None:
        """The temperature that is asked with: so high that samples differ, unless another is
        set.
        """
        return (
            _OF_SAMPLES
            if self.samples > 1 and "temperature" not in self.model_fields_set
            else self.temperature
        )

    @property
    def required(self) -> Certificate | None:
        """What a judge's certificate has to meet; None where none is required."""
        return self.certificate if self.require else None

    @property
    def refuses_uncertified(self) -> bool:
        """Whether nothing may rest on the labels of a judge without a certificate."""
        return self.require is not None and self.certificate.uncertified == "refuse"

    @property
    def models(self) -> tuple[str, ...]:
        """The models in the order in which they are asked; empty where no model is configured."""
        if self.recorded_answers is not None:
            return (self.model or "recorded",)
        return () if self.model is None else (self.model, *self.fallback_models)

    @property
    def cascade_models(self) -> tuple[str, ...]:
        """The model that is asked before `model`, where there is a cascade."""
        return (self.cascade.model,) if self.cascade else ()

    def with_model(self, model: str) -> Self:
        """This configuration with `model` as the judge.

        Key, address and fallbacks are for the configured model's provider: none of them goes to
        another one's.
        """
        changes: dict[str, Any] = {"model": model}
        if self.model is not None and not self.serves(model):
            changes |= {"api_key": None, "api_base": None, "fallback_models": ()}
        return self.model_copy(update=changes)

    def serves(self, model: str) -> bool:
        """Whether `model` is of the configured model's provider, for whom key and address are."""
        if self.model is None or model == self.model:
            return model == self.model
        owner = provider.provider(model)
        return owner is not None and owner == provider.provider(self.model)

    def or_model(self, model: str | None) -> Self:
        """This configuration; where it names no model, with `model` for one.

        One that is configured stays, and is asked for `model` call by call: its key is for its own
        provider alone.
        """
        return self if self.models or model is None else self.model_copy(update={"model": model})


_Model = Annotated[str, Field(min_length=1)]


class Changes(Options):
    """Keys of `judge`; those that are not set are as configured there."""

    model: _Model | None = None
    """The model that judges. Where it is another one than `judge.model` there is no cascade, and
    the configured key, address and fallbacks are its own only where it is of the same provider.
    """

    fallback_models: tuple[_Model, ...] = ()
    """Models to ask, in order, when the one before gave no valid answer."""

    plan: Literal["staged", "fused"] = "fused"
    """As `judge.plan`."""

    temperature: float | None = Field(default=0.0, ge=0, le=2)
    """As `judge.temperature`."""

    samples: int = Field(default=1, ge=1, le=20)
    """As `judge.samples`."""

    max_transcript_tokens: int = Field(default=32_000, ge=500)
    """As `judge.max_transcript_tokens`."""

    attachments: bool = False
    """As `judge.attachments`."""

    max_output_tokens: int = Field(default=4096, ge=64)
    """As `judge.max_output_tokens`."""

    max_verdicts: int = Field(default=300, ge=1)
    """As `judge.max_verdicts`."""

    extra: Annotated[dict[str, Any], AfterValidator(not_reserved)] = Field(default={}, repr=False)
    """As `judge.extra`, on top of what is configured there."""

    def applied(self, config: Config) -> Config:
        """The configuration of a judge with these changes.

        Raises ValueError where they do not go with it.
        """
        changed = config
        if self.model is not None and self.model != config.model:
            changed = config.with_model(self.model).model_copy(update={"cascade": None})
        given = {name: getattr(self, name) for name in self.model_fields_set - {"model"}}
        if "extra" in given:
            given["extra"] = {**config.extra, **self.extra}
        changed = changed.model_copy(update=given)
        changed.refuse_equal_samples()
        return changed
